//===- shale-tblgen.cpp - Writes C++ from lib/Options/Options.td ----------===//
//
// The records are described in lib/Options/Option.td. Each part of the output is used where a macro
// of its name is defined, as in the output of mlir-tblgen.
//
//===----------------------------------------------------------------------===//
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"
#include <vector>

using namespace llvm;

namespace {

enum class Part { Options, Names };

cl::opt<Part> part(cl::desc("What to write:"),
                   cl::values(clEnumValN(Part::Options, "gen-options",
                                         "members, flags, options of passes and knobs"),
                              clEnumValN(Part::Names, "gen-flag-names",
                                         "the names of flags, a string literal")),
                   cl::Required);

/// Returns the flags in the order of the file.
std::vector<const Record *> flagsOf(const RecordKeeper &records) {
  std::vector<const Record *> flags(records.getAllDerivedDefinitions("Flag"));
  llvm::sort(flags, [](const Record *a, const Record *b) { return a->getID() < b->getID(); });
  return flags;
}

std::string quoted(StringRef text) {
  std::string literal;
  raw_string_ostream os(literal);
  os << '"';
  os.write_escaped(text);
  os << '"';
  return literal;
}

/// Writes a list of texts as an initializer: {"a", "b"}.
void printList(raw_ostream &os, const std::vector<StringRef> &texts) {
  os << '{';
  interleaveComma(texts, os, [&](StringRef text) { os << quoted(text); });
  os << '}';
}

void printMember(raw_ostream &os, const Record &flag) {
  StringRef init = flag.getValueAsString("defaultValue");
  os << "/// --" << flag.getValueAsString("argument") << ": "
     << flag.getValueAsString("description") << "\n"
     << flag.getValueAsString("type") << " " << flag.getName();
  if (!init.empty())
    os << " = " << init;
  os << ";\n";
}

void printRow(raw_ostream &os, const Record &flag) {
  StringRef value = flag.getValueAsString("value");
  os << "{" << quoted(flag.getValueAsString("argument")) << ", "
     << (value.empty() ? "nullptr" : quoted(value)) << ", "
     << quoted(flag.getValueAsString("group")) << ", Effect::" << flag.getValueAsString("effect")
     << ", " << quoted(flag.getValueAsString("help")) << ", " << flag.getValueAsString("set")
     << ", " << flag.getValueAsString("get") << ", "
     << (flag.getValueAsBit("repeated") ? "true" : "false") << ", "
     << (flag.getValueAsBit("ofUpdates") ? "true" : "false") << "},\n";
}

/// Writes two overloads: one for options of passes with a member of the flag's name, and one for
/// others.
void printTaker(raw_ostream &os, const Record &flag) {
  StringRef name = flag.getName();
  os << "template <typename P>\nauto take_" << name
     << "(P &pass, const CompileOptions &options, int) -> decltype((void)(pass." << name
     << ")) {\n  pass." << name << " = options." << name << ";\n}\ntemplate <typename P> void take_"
     << name << "(P &, const CompileOptions &, long) {}\n";
}

void printKnobs(raw_ostream &os, std::vector<const Record *> flags) {
  llvm::erase_if(flags, [](const Record *flag) { return flag->getValueAsInt("rank") == 0; });
  llvm::sort(flags, [](const Record *a, const Record *b) {
    return a->getValueAsInt("rank") < b->getValueAsInt("rank");
  });
  for (const Record *flag : flags) {
    os << "{flagNamed(" << quoted(flag->getValueAsString("argument")) << ")";
    for (StringRef list : {"tried", "shown", "triedGathered"}) {
      os << ", ";
      printList(os, flag->getValueAsListOfStrings(list));
    }
    os << "},\n";
  }
}

/// Writes what `print` does where `macro` is defined.
void printPart(raw_ostream &os, StringRef macro, function_ref<void()> print) {
  os << "#ifdef " << macro << "\n#undef " << macro << "\n";
  print();
  os << "#endif // " << macro << "\n\n";
}

void printOptions(raw_ostream &os, const std::vector<const Record *> &flags) {
  printPart(os, "GET_OPTION_MEMBERS", [&] {
    for (const Record *flag : flags)
      printMember(os, *flag);
  });
  printPart(os, "GET_FLAGS", [&] {
    for (const Record *flag : flags)
      printRow(os, *flag);
  });
  printPart(os, "GET_PASS_OPTIONS", [&] {
    std::string takes;
    for (const Record *flag : flags)
      if (!flag->getValueAsListOfStrings("passes").empty()) {
        printTaker(os, *flag);
        takes += ("  take_" + flag->getName() + "(pass, options, 0);\n").str();
      }
    os << "template <typename P> P optionsOf(const CompileOptions &options) {\n  P pass;\n"
       << takes << "  return pass;\n}\n";
  });
  printPart(os, "GET_FLAG_EXAMPLES", [&] {
    for (const Record *flag : flags)
      os << "{" << quoted(flag->getValueAsString("argument")) << ", "
         << quoted(flag->getValueAsString("example")) << "},\n";
  });
  printPart(os, "GET_KNOBS", [&] { printKnobs(os, flags); });
}

bool write(raw_ostream &os, const RecordKeeper &records) {
  std::vector<const Record *> flags = flagsOf(records);
  os << "// Written by shale-tblgen.\n";
  if (part == Part::Options) {
    printOptions(os, flags);
    return false;
  }
  for (const Record *flag : flags)
    os << '"' << flag->getValueAsString("argument") << ",\"\n";
  return false;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  return TableGenMain(argv[0], &write);
}
