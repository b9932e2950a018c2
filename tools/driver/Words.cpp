//===- Words.cpp - Shale's flags for those of other frameworks ------------===//
//
// What shalec answers from the table that it shares with the programs that it makes.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/Words.h"
#include "dialects/nn/Optimizers.h"
#include "runtime/program/ForeignWords.h"
#include "tools/driver/Flags.h"

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
  if (*found.row->why)
    return flag + " " + found.row->why;
  return *found.row->shalec ? use + found.row->shalec
                            : use + found.row->train + " of the program, at run time";
}

std::string shale::flagForForeignValue(StringRef flag, StringRef value) {
  if (flag == "mesh") // the name of an axis
    value = value.split('=').first;
  std::string ours = rt::findForeignValue(flag.str(), value.str());
  return ours.empty() ? "" : ("--" + flag + " " + ours).str();
}
