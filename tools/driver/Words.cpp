//===- Words.cpp - Shale's flags for those of other frameworks ------------===//
//
// What shalec answers from the table that it shares with the programs that it makes.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/Words.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Options/Flags.h"
#include "runtime/program/flags/ForeignWords.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using llvm::StringRef;

/// Whether a plain word is a flag of the programs that shalec makes.
static bool isProgramFlag(const std::string &flag) {
  if (rt::isTrainFlag(flag))
    return true;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter &hyper : optimizer->hypers)
      if (hyper.source == nn::HyperSource::Flag && flag == rt::plainWord(hyper.name.str()))
        return true;
  return false;
}

/// Says that flags are those of the program, after the first of them: "--keep N of the program, at
/// run time; 0 keeps all". What is no flag is left as it is.
static std::string atRunTime(StringRef train) {
  if (!train.starts_with("--"))
    return train.str();
  size_t end = train.size();
  for (const char *mark : {"; ", ", ", ": ", " ("})
    end = std::min(end, train.find(mark));
  return (train.take_front(end) + " of the program, at run time" + train.drop_front(end)).str();
}

std::string shale::answerToForeignFlag(StringRef word) {
  std::string flag = ("--" + word).str(), plain = rt::plainWord(word.str());
  if (isProgramFlag(plain))
    return "--" + plain + " is a flag of the program that shalec makes, at run time: ./train --" +
           plain + " ..";
  rt::FoundFlag found = rt::findForeignFlag(flag, [](const std::string &name) {
    return isProgramFlag(name) || flagNamed(name) != nullptr;
  });
  std::string use = flag + " is not a flag of Shale: use ";
  if (const Flag *own = flagNamed(found.own))
    return use + "--" + own->name + (own->value ? std::string(" ") + own->value : "");
  if (!found.own.empty())
    return use + "--" + found.own + " of the program, at run time";
  if (!found.row)
    return "";
  if (!found.row->why.empty())
    return flag + " " + found.row->why;
  return *found.row->shalec ? use + found.row->shalec : use + atRunTime(found.row->train);
}

std::string shale::answerToForeignValue(StringRef flag, StringRef value) {
  if (flag != "mesh")
    return rt::answerToForeignValue(flag.str(), value.str());
  for (StringRef axis : llvm::split(value, ','))
    if (std::string answer = rt::answerToForeignValue("mesh", axis.split('=').first.str());
        !answer.empty())
      return answer;
  return "";
}
