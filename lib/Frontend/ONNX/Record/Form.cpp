//===- Form.cpp - Parser of forms -----------------------------------------===//
#include "lib/Frontend/ONNX/Record/Form.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

/// A parser of one line. After an error, every function returns without a change.
class Parser {
public:
  Parser(StringRef text, llvm::StringMap<Term> &named) : rest(text.trim()), named(named) {}

  bool hasFailed() const { return failed; }
  bool takesDefinition();
  Form form();

private:
  bool take(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }
  void expect(StringRef token) { failed |= !take(token); }
  StringRef word();
  Argument literal();
  Term term();
  void list(StringRef end, llvm::function_ref<void()> parseItem);
  std::vector<Term> terms(StringRef end);
  Choice choice();

  StringRef rest;
  llvm::StringMap<Term> &named;
  bool failed = false;
};

} // namespace

StringRef Parser::word() {
  rest = rest.ltrim();
  StringRef found = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
  rest = rest.drop_front(found.size());
  return found;
}

/// A number, None, True, False or a list of numbers.
Argument Parser::literal() {
  rest = rest.ltrim();
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '-' || c == '.' || c == '_'; };
  size_t end = rest.starts_with("[") ? rest.find(']') + 1 : rest.take_while(isPart).size();
  failed |= end == 0;
  StringRef text = rest.take_front(end);
  rest = rest.drop_front(end);
  return parseArgument(text);
}

/// Parses items between commas up to `end`.
void Parser::list(StringRef end, llvm::function_ref<void()> parseItem) {
  while (!failed && !take(end)) {
    parseItem();
    if (!rest.ltrim().starts_with(end))
      expect(",");
  }
}

std::vector<Term> Parser::terms(StringRef end) {
  std::vector<Term> found;
  list(end, [&] { found.push_back(term()); });
  return found;
}

Term Parser::term() {
  rest = rest.ltrim();
  if (rest.empty() || failed) {
    failed = true;
    return {};
  }
  if (take("*"))
    return {Term::Kind::Each, "", {}, {term()}};
  if (take("["))
    return {Term::Kind::List, "", {}, terms("]")};
  if (take("\"")) {
    auto [text, after] = rest.split('"');
    rest = after;
    return {Term::Kind::Literal, "", {Argument::Kind::Text, text.str()}};
  }
  if (llvm::isDigit(rest.front()) || rest.front() == '-')
    return {Term::Kind::Literal, "", literal()};
  StringRef name = word();
  failed |= name.empty();
  if (failed || name == "_")
    return {};
  if (auto known = named.find(name); known != named.end())
    return known->second;
  if (!take("(")) {
    Argument value = parseArgument(name); // True, inf
    return value.isNumber() ? Term{Term::Kind::Literal, "", value}
                            : Term{Term::Kind::Argument, name.str()};
  }
  Term result{llvm::isUpper(name.front()) ? Term::Kind::Node
              : name == "either"          ? Term::Kind::Either
                                          : Term::Kind::Function,
              name.str()};
  failed |= result.kind == Term::Kind::Function && !isTermFunction(name);
  result.parts = terms(")");
  if (take("{"))
    list("}", [&] {
      std::string attribute = word().str();
      expect("=");
      result.attributes.push_back({attribute, term()});
    });
  return result;
}

Choice Parser::choice() {
  Choice result;
  StringRef before = rest;
  StringRef name = word();
  if (name == "every" && take(":")) {
    result.ofEvery = true;
  } else if (!name.empty() && ((result.isNegated = take("!=")) || take("="))) {
    result.onlyIf = name.str();
    result.is = literal();
    expect(":");
  } else {
    rest = before;
  }
  result.term = term();
  return result;
}

/// Parses `let NAME = term`; returns false if the line is none.
bool Parser::takesDefinition() {
  if (!take("let "))
    return false;
  std::string name = word().str();
  expect("=");
  Term value = term();
  named[name] = value;
  failed |= !rest.trim().empty();
  return true;
}

Form Parser::form() {
  Form result;
  SmallVector<StringRef> kinds;
  rest.take_until([](char c) { return c == '('; }).split(kinds, ',');
  for (StringRef kind : kinds)
    result.kinds.push_back(kind.trim().str());
  rest = rest.drop_until([](char c) { return c == '('; });
  expect("(");
  list(")", [&] {
    Form::Parameter &parameter = result.parameters.emplace_back();
    parameter.name = word().str();
    failed |= parameter.name.empty();
    if (take(":")) {
      StringRef shape = word();
      failed |= shape != "flat" && shape != "open";
      parameter.shape =
          shape == "flat" ? Form::Parameter::Shape::Flat : Form::Parameter::Shape::Open;
    }
    if (take("="))
      parameter.missing = literal();
  });
  expect("=");
  do
    result.choices.push_back(choice());
  while (!failed && take("|"));
  failed |= !rest.trim().empty();
  return result;
}

llvm::Expected<Forms> Forms::parse(StringRef text) {
  Forms forms;
  llvm::StringMap<Term> named;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.trim().empty() || line.trim().starts_with("#"))
      continue;
    Parser parser(line, named);
    if (!parser.takesDefinition()) {
      Form form = parser.form();
      for (const std::string &kind : form.kinds)
        if (!parser.hasFailed() && !forms.byKind.try_emplace(kind, form).second)
          return llvm::createStringError("'" + kind + "' has two forms");
    }
    if (parser.hasFailed())
      return llvm::createStringError("no form: " + line.trim());
  }
  return forms;
}

const Form *Forms::find(StringRef target) const {
  target.consume_front(words::kAten);
  for (StringRef name : {target, target.rsplit('.').first})
    if (auto found = byKind.find(name); found != byKind.end())
      return &found->second;
  return nullptr;
}
