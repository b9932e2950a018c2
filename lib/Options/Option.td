//===- Option.td - What one flag of shalec is -----------------------------===//
//
// A record of Options.td is one flag of shalec. From it follow
// - a member of CompileOptions, which has the name of the record (Options.h);
// - the flag: its text in --help, how it is parsed and printed, and what it changes (Flags.h);
// - an option of the passes in `passes`, with the flag's name (Passes.td: FlagsOf), and its value in
//   each compilation (PassOptions.h);
// - the values that plans are compared over (Knobs.h);
// - the name that the answers of programs to flags of other tools have (ForeignWords.def).
// shale-tblgen writes them.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_OPTIONS_OPTION_TD
#define SHALE_OPTIONS_OPTION_TD

include "mlir/Pass/PassBase.td"

/// The text of a pass' option: what its value is, and the text of the flag without the default that
/// shalec chooses.
class TextForPass<string metavar, string text> {
  defvar at = !find(text, " (default: ");
  defvar plain = !if(!lt(at, 0), text, !substr(text, 0, at));
  string ret = !if(!empty(metavar), plain, metavar # ": " # plain);
}

/// `word`: without the dashes. `metavar`: what stands for the value in --help, empty for a flag
/// without a value. `text`: of --help.
class Flag<string word, string metavar, string cppType, string init, string text>
    : Option<NAME, word, cppType, init, TextForPass<metavar, text>.ret> {
  string value = metavar;
  /// The text in --help. The names that Shale has replace {optimizers}, {optimizer}, {machines} and
  /// {targets}.
  string help = text;
  /// The heading in --help, and an Effect (Flags.h).
  string group = ?;
  string effect = ?;
  /// C++ of the functions that parse a value into CompileOptions and print it from there.
  code set = ?;
  code get = "nullptr";
  /// Whether each use of the flag adds a value.
  bit repeated = false;
  /// Whether the flag changes which parameters are updated, or how: a file with updates of its own
  /// leaves no choice.
  bit ofUpdates = false;
  /// A value other than the default, for tests; empty for a flag without a value.
  string example = "";
  /// Passes with an option of this name.
  list<string> passes = [];
  /// Values that a search tries, the default first; those that tables and advice show, if fewer;
  /// those that a search tries if units are gathered, if different. `rank`: its place among knobs.
  list<string> tried = [];
  list<string> shown = [];
  list<string> triedGathered = [];
  int rank = 0;
}

/// A flag whose type has parseText() and textOf().
class Policy<string word, string metavar, string cppType, string init, string text>
    : Flag<word, metavar, cppType, init, text> {
  let set = "set<&O::" # NAME # ">";
  let get = "get<&O::" # NAME # ">";
}

/// A number between two others, both included.
class Number<string word, string metavar, int least, int most, int init, string text>
    : Flag<word, metavar, "int64_t", !cast<string>(init), text> {
  let set = "setNumber<&O::" # NAME # ", " # least # ", " # most # ">";
  let get = "getNumber<&O::" # NAME # ">";
  let example = !cast<string>(!add(init, 2));
}

/// true or false.
class Bool<string word, string init, string text> : Flag<word, "BOOL", "bool", init, text> {
  let set = "setBool<&O::" # NAME # ">";
  let get = "getBool<&O::" # NAME # ">";
  let example = !if(!eq(init, "true"), "false", "true");
}

/// A flag that needs no value and turns something on; --flag=false is the default.
class Switch<string word, string text> : Flag<word, "", "bool", "false", text> {
  let set = "setSwitch<&O::" # NAME # ">";
  let get = "getBool<&O::" # NAME # ">";
  let example = "true";
}

/// A flag without a value that sets its member to `to`.
class On<string word, string text, string init = "false", string to = "true">
    : Flag<word, "", "bool", init, text> {
  let set = "setOn<&O::" # NAME # ", " # to # ">";
}

/// A text that a later stage reads.
class Text<string word, string metavar, string text, string init = "\"\"">
    : Flag<word, metavar, "std::string", init, text> {
  let set = "setString<&O::" # NAME # ">";
}

/// A list of such texts.
class Texts<string word, string metavar, string text>
    : Flag<word, metavar, "std::vector<std::string>", "", text> {
  let set = "append<&O::" # NAME # ">";
  let repeated = true;
}

/// A flag with a parser of its own (Flags.cpp).
class Parsed<string word, string metavar, string cppType, string init, string parser, string text>
    : Flag<word, metavar, cppType, init, text> {
  let set = parser;
}

/// The options of a pass that are flags of shalec.
class FlagsOf<string pass> {
  list<Option> options =
      !filter(flag, !instances<Flag>(), !ne(!size(!filter(name, flag.passes, !eq(name, pass))), 0));
}

#endif // SHALE_OPTIONS_OPTION_TD
