// What the program answers from the table that it shares with shalec.
#include "runtime/program/flags/Words.h"
#include "runtime/program/flags/ForeignWords.h"

namespace shale::rt {

std::string answerToFlag(const std::string &flag,
                         const std::function<bool(const std::string &)> &isOwn) {
  const std::string compiled =
      "is fixed when the program is compiled: compile it again with shalec and ";
  FoundFlag found = findForeignFlag(
      flag, [&](const std::string &name) { return isOwn(name) || isShalecFlag(name); });
  if (isOwn(found.own))
    return "is not a flag of Shale: use --" + found.own;
  if (!found.own.empty())
    return compiled + "--" + found.own;
  if (!found.row)
    return "";
  if (!found.row->why.empty())
    return found.row->why;
  return *found.row->train ? std::string("is not a flag of Shale: use ") + found.row->train
                           : compiled + found.row->shalec;
}

} // namespace shale::rt
