//===- CommandLine.cpp - The command line of shalec -----------------------===//
//
// Uses CLI11 rather than llvm::cl: the flags stay separate from the hundreds that
// LLVM's libraries register, help is grouped, and an error is exit code 64.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/CommandLine.h"
#include "lib/Options/Flags.h"
#include "runtime/program/flags/ForeignWords.h"
#include "shale/InitAll.h"
#include "shale/Runtime.h"
#include "tools/driver/Words.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>

using namespace shale;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

/// Sets a flag to a value as typed, or to the value in lower case up to a colon ("AdamW"). Throws
/// CLI::ValidationError for a wrong one; suggests Shale's value for a value of another framework,
/// which may have a word of Shale with another meaning ("Adam").
void setFlag(CompileOptions &options, const Flag &flag, const std::string &value) {
  std::string wrong = flag.set(options, value);
  if (wrong.empty())
    return;
  size_t word = std::min(value.find(':'), value.size());
  std::string lower = StringRef(value).take_front(word).lower() + value.substr(word);
  if (std::string answer = answerToForeignValue(flag.name, value); !answer.empty())
    wrong = answer;
  else if (!flag.repeated && lower != value && flag.set(options, lower).empty())
    return;
  throw CLI::ValidationError("--" + std::string(flag.name), wrong);
}

/// Adds a flag of the table to the parser. `extend`: whether to show those for people who extend
/// Shale.
void addFlag(CLI::App &app, CompileOptions &options, const Flag &flag, bool extend) {
  std::string name = "--" + std::string(flag.name);
  bool hidden = StringRef(flag.group) == kExtendGroup && !extend;
  CLI::Option *added;
  if (!flag.value)
    added =
        app.add_flag_callback(name, [&options, &flag] { setFlag(options, flag, ""); }, flag.help);
  else if (flag.repeated)
    added = app.add_option_function<std::vector<std::string>>(
                   name,
                   [&options, &flag](const std::vector<std::string> &values) {
                     for (const std::string &value : values)
                       setFlag(options, flag, value);
                   },
                   flag.help)
                ->allow_extra_args(false)
                ->type_name(flag.value);
  else
    added =
        app.add_option_function<std::string>(
               name, [&options, &flag](const std::string &value) { setFlag(options, flag, value); },
               flag.help)
            ->type_name(flag.value);
  added->group(hidden ? "" : flag.group);
}

namespace {
/// Prints the only positional argument without a heading: the line above it, the usage, names it.
struct HelpFormatter : CLI::Formatter {
  std::string make_positionals(const CLI::App *app) const override {
    std::string text = Formatter::make_positionals(app);
    return text.substr(text.find(":\n") + 2);
  }
};
} // namespace

/// Removes blank lines so that help fits a screen; headings separate the groups.
std::string withoutBlankLines(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  return llvm::join(lines, "\n") + "\n";
}

/// Returns the flag of `app` that `word` is likely a slip of; "" if none.
std::string nearestFlag(const CLI::App &app, StringRef word) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options())
    llvm::append_range(names, option->get_lnames());
  std::string near = rt::nearestWord(rt::plainWord(word.str()), names);
  return near.empty() ? "" : "--" + near;
}

/// Prints what is wrong with the flags, and what the user may have meant.
void reportError(const CLI::App &app, const CLI::ParseError &error,
                 llvm::ArrayRef<std::string> args) {
  std::string notes;
  llvm::raw_string_ostream os(notes);
  bool unknown = false;
  for (StringRef argument : args.drop_front()) {
    if (!argument.consume_front("--"))
      continue;
    StringRef word = argument.split('=').first;
    if (app.get_option_no_throw("--" + word.str()))
      continue;
    if (!unknown)
      llvm::errs() << "shalec: error: unknown flag --" << word << "\n";
    unknown = true;
    if (std::string answer = answerToForeignFlag(word); !answer.empty())
      os << "shalec: note: " << answer << "\n";
    else if (std::string near = nearestFlag(app, word); !near.empty())
      os << "shalec: note: did you mean " << near << "?\n";
  }
  if (!unknown)
    llvm::errs() << "shalec: error: " << error.what() << "\n";
  llvm::errs() << notes;
}

} // namespace

ParsedOptions shale::parseOptions(int argc, char **argv) {
  registerAllTargets(); // --help lists them
  CompileOptions o;
  CLI::App app{"Compiles a transformer training graph (ONNX) into a sharded training program.",
               "shalec"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(38);
  app.option_defaults()->always_capture_default(false);
  app.set_help_all_flag("--help-all", "print the flags for people who extend Shale, too");
  app.set_version_flag("--version", "shalec 0.1.0 (LLVM 22)");

  app.add_option("MODEL", o.model, "ONNX file, or a folder of ONNX Runtime's training artifacts")
      ->required()
      ->type_name("");
  app.add_option("-o", o.output, "output file (default: train; - is standard output for text)")
      ->type_name("FILE");

  bool all = llvm::is_contained(llvm::ArrayRef(argv, argc), StringRef("--help-all"));
  for (const Flag &flag : allFlags())
    addFlag(app, o, flag, all);

  std::vector<std::string> args;
  for (int i = 0; i < argc; ++i)
    args.push_back(rt::withPlainFlag(
        argv[i], [&](const std::string &name) { return app.get_option_no_throw("--" + name); }));
  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend() - 1); // as CLI11 wants them
    app.parse(reversed);
  } catch (const CLI::Success &asked) {
    bool version = dynamic_cast<const CLI::CallForVersion *>(&asked);
    llvm::outs() << (version ? std::string(asked.what()) + "\n" : withoutBlankLines(app.help()));
    return {std::nullopt, SHALE_EXIT_OK};
  } catch (const CLI::ParseError &error) {
    reportError(app, error, args);
    return {std::nullopt, SHALE_EXIT_USAGE};
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_lnames().empty()) {
      o.typed.insert(option->get_lnames().front());
      for (const std::string &value : option->results())
        o.flags.push_back({option->get_lnames().front(), value});
    }
  if (o.recompute.kind == RecomputePolicy::Auto) {
    o.recomputeAuto = true;
    o.recompute = RecomputePolicy();
    o.typed.erase("recompute");
  }
  for (size_t i = 1; i < args.size(); ++i) {
    StringRef word = args[i];
    if (word == "-o")
      ++i;
    else if (word != "--describe" && word != "--remarks" && !word.starts_with("-o"))
      o.words.push_back(args[i]);
  }
  o.argv = std::move(args);
  o.chooseShard();
  if (o.output.empty())
    o.output = o.emit == Emit::Program ? "train" : o.emit == Emit::Object ? "train.o" : "-";
  return {o, 0};
}
