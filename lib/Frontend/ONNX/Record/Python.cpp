//===- Python.cpp - Expressions in a line of Python -----------------------===//
#include "lib/Frontend/ONNX/Record/Python.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;
using Kind = PyExpr::Kind;

static constexpr size_t kMaxLength = 1024;
static constexpr int kMaxDepth = 64;

namespace {

struct Token {
  enum class Type { Name, Number, String, Operator };
  Type type;
  StringRef text;
};

} // namespace

/// Returns the length of a string literal at the start of `text`; of the rest if it does not end.
static size_t lengthOfString(StringRef text) {
  char quote = text.front();
  size_t marks = text.size() >= 3 && text[1] == quote && text[2] == quote ? 3 : 1;
  for (size_t i = marks; i + marks <= text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text.substr(i, marks) == text.take_front(marks))
      return i + marks;
  }
  return text.size();
}

static std::vector<Token> tokenize(StringRef line) {
  static const StringRef operators[] = {"**=", "//=", ">>=", "<<=", "...", "**", "//", "->",
                                        ":=",  "==",  "!=",  "<=",  ">=",  "+=", "-=", "*=",
                                        "/=",  "@=",  "%=",  "&=",  "|=",  "^=", "<<", ">>"};
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_' || (c & 0x80); };
  std::vector<Token> tokens;
  for (line = line.ltrim(); !line.empty() && line.front() != '#'; line = line.ltrim()) {
    size_t length = 1;
    Token::Type type = Token::Type::Operator;
    char first = line.front();
    if (llvm::isDigit(first) || (first == '.' && line.size() > 1 && llvm::isDigit(line[1]))) {
      type = Token::Type::Number;
      while (length < line.size() &&
             (isWord(line[length]) || line[length] == '.' ||
              ((line[length] == '+' || line[length] == '-') &&
               llvm::toLower(line[length - 1]) == 'e' && !line.starts_with_insensitive("0x"))))
        ++length;
    } else if (isWord(first)) {
      type = Token::Type::Name;
      length = line.find_if_not(isWord);
      length = length == StringRef::npos ? line.size() : length;
      if (length <= 2 && length < line.size() && (line[length] == '"' || line[length] == '\'')) {
        type = Token::Type::String; // f"", rb""
        length += lengthOfString(line.drop_front(length));
      }
    } else if (first == '"' || first == '\'') {
      type = Token::Type::String;
      length = lengthOfString(line);
    } else if (const StringRef *longer =
                   llvm::find_if(operators, [&](StringRef op) { return line.starts_with(op); });
               longer != std::end(operators)) {
      length = longer->size();
    }
    tokens.push_back({type, line.take_front(length)});
    line = line.drop_front(length);
  }
  return tokens;
}

/// Returns how tightly a binary operator binds; 0 for other tokens.
static int precedenceOf(StringRef op) {
  return llvm::StringSwitch<int>(op)
      .Case("or", 1)
      .Case("and", 2)
      .Cases({"<", ">", "<=", ">=", "==", "!=", "in", "is"}, 4)
      .Case("|", 5)
      .Case("^", 6)
      .Case("&", 7)
      .Cases({"<<", ">>"}, 8)
      .Cases({"+", "-"}, 9)
      .Cases({"*", "/", "//", "%", "@"}, 10)
      .Case("**", 12)
      .Default(0);
}
static constexpr int kNot = 3, kSign = 11;

namespace {

class Parser {
public:
  explicit Parser(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  std::vector<PyExpr> parseLine() {
    std::vector<PyExpr> found;
    while (at < tokens.size()) {
      if (!startsExpression()) {
        ++at;
        continue;
      }
      PyExpr expression = parse(0);
      // `h += x` is h + x.
      StringRef op = peek();
      if (op.consume_back("=") && precedenceOf(op) && startsExpression(++at))
        expression = binary(op, std::move(expression), parse(0));
      found.push_back(std::move(expression));
    }
    return tooDeep ? std::vector<PyExpr>() : found;
  }

private:
  StringRef peek() const {
    return at < tokens.size() && tokens[at].type != Token::Type::String ? tokens[at].text : "";
  }
  bool take(StringRef text) {
    bool is = peek() == text;
    at += is;
    return is;
  }
  static bool isKeyword(StringRef name) {
    return llvm::is_contained({"return",  "def",      "if",     "else",  "elif", "for",
                               "while",   "in",       "is",     "and",   "or",   "with",
                               "as",      "yield",    "assert", "raise", "try",  "except",
                               "finally", "import",   "from",   "class", "del",  "pass",
                               "break",   "continue", "global", "async", "await"},
                              name);
  }
  bool startsExpression() const { return startsExpression(at); }
  bool startsExpression(size_t place) const {
    if (place >= tokens.size())
      return false;
    const Token &token = tokens[place];
    if (token.type == Token::Type::Name)
      return !isKeyword(token.text);
    return token.type != Token::Type::Operator ||
           llvm::is_contained({"(", "[", "{", "-", "+", "~", "..."}, token.text);
  }
  static PyExpr binary(StringRef op, PyExpr lhs, PyExpr rhs) {
    PyExpr result{Kind::Binary, op.str()};
    result.parts.push_back(std::move(lhs));
    result.parts.push_back(std::move(rhs));
    return result;
  }

  /// Parses an expression of operators that bind tighter than `level`. Consumes at least one token
  /// if startsExpression().
  PyExpr parse(int level) {
    if (++depth > kMaxDepth) {
      tooDeep = true;
      at = tokens.size();
    }
    PyExpr result = parseUnary();
    for (;;) {
      StringRef op = peek();
      if (op == "not" && at + 1 < tokens.size() && tokens[at + 1].text == "in")
        ++at, op = "in";
      int precedence = precedenceOf(op);
      if (precedence <= level)
        break;
      ++at;
      if (op == "is")
        take("not");
      // ** groups from the right.
      PyExpr rhs = parse(op == "**" ? precedence - 1 : precedence);
      result = binary(op, std::move(result), std::move(rhs));
    }
    // a if b else c: not modelled
    if (level == 0 && peek() == "if") {
      PyExpr choice;
      choice.parts.push_back(std::move(result));
      while (take("if") || take("else"))
        choice.parts.push_back(parse(0));
      result = std::move(choice);
    }
    --depth;
    return result;
  }

  PyExpr parseUnary() {
    StringRef op = peek();
    if (op != "-" && op != "+" && op != "~" && op != "not")
      return parsePostfix();
    ++at;
    PyExpr operand = parse(op == "not" ? kNot : kSign);
    if (op == "+")
      return operand;
    if (op == "-" && operand.kind == Kind::Number) {
      operand.number = -operand.number;
      return operand;
    }
    PyExpr result{Kind::Unary, op.str()};
    result.parts.push_back(std::move(operand));
    return result;
  }

  PyExpr parsePostfix() {
    PyExpr result = parseAtom();
    for (;;) {
      PyExpr outer;
      if (take(".")) {
        outer = {Kind::Attribute, peek().str()};
        at += at < tokens.size();
        outer.parts.push_back(std::move(result));
      } else if (take("(")) {
        outer.kind = Kind::Call;
        outer.parts.push_back(std::move(result));
        parseList(")", outer);
      } else if (take("[")) {
        outer.kind = Kind::Index;
        outer.parts.push_back(std::move(result));
        parseList("]", outer);
      } else {
        return result;
      }
      result = std::move(outer);
    }
  }

  /// Parses what is between brackets, through the closing one if the line has it. A comprehension
  /// makes the list Other. Returns whether the last part is followed by a comma.
  bool parseList(StringRef close, PyExpr &list) {
    bool comma = false;
    while (at < tokens.size() && !take(close)) {
      std::string keyword;
      if (at + 1 < tokens.size() && tokens[at].type == Token::Type::Name &&
          tokens[at + 1].text == "=") {
        keyword = tokens[at].text.str();
        at += 2;
      }
      if (peek() == "*" || peek() == "**") {
        ++at;
        list.kind = Kind::Other; // how many arguments follow is not known
      }
      if (peek() == ":" || startsExpression()) {
        list.parts.push_back(parseItem());
        list.keywords.push_back(keyword);
      } else {
        list.kind = Kind::Other;
        ++at;
      }
      if (peek() != "," && peek() != close && at < tokens.size())
        list.kind = Kind::Other;
      comma = take(",");
    }
    return comma;
  }

  PyExpr parseItem() {
    PyExpr first;
    if (peek() != ":")
      first = parse(0);
    if (peek() != ":")
      return first;
    PyExpr slice{Kind::Slice};
    slice.parts.push_back(std::move(first));
    while (take(":"))
      slice.parts.push_back(startsExpression() ? parse(0) : PyExpr());
    slice.parts.resize(3);
    return slice;
  }

  PyExpr parseAtom() {
    if (!startsExpression())
      return {};
    const Token &token = tokens[at++];
    if (token.type == Token::Type::Name) {
      if (token.text != "lambda")
        return {Kind::Name, token.text.str()};
      while (at < tokens.size() && !take(":"))
        ++at;
      PyExpr lambda;
      lambda.parts.push_back(parse(0));
      return lambda;
    }
    if (token.type == Token::Type::Number) {
      std::string digits = token.text.str();
      llvm::erase(digits, '_');
      PyExpr number{Kind::Number, token.text.str()};
      unsigned whole = 0;
      if (StringRef(digits).starts_with_insensitive("0x") &&
          !StringRef(digits).getAsInteger(0, whole))
        number.number = whole;
      else if (StringRef(digits).getAsDouble(number.number))
        number.kind = Kind::Other; // 2j
      return number;
    }
    if (token.type == Token::Type::String || token.text == "...")
      return {Kind::Other, token.text.str()};
    PyExpr list{Kind::List};
    StringRef close = token.text == "(" ? ")" : token.text == "[" ? "]" : "}";
    bool comma = parseList(close, list);
    if (token.text == "{")
      list.kind = Kind::Other;
    // Parentheses around one expression group it.
    if (token.text == "(" && list.kind == Kind::List && list.parts.size() == 1 && !comma) {
      PyExpr inner = std::move(list.parts.front());
      return inner;
    }
    return list;
  }

  std::vector<Token> tokens;
  size_t at = 0;
  int depth = 0;
  bool tooDeep = false;
};

} // namespace

std::vector<PyExpr> onnx::expressionsIn(StringRef line) {
  if (line.size() > kMaxLength)
    return {};
  return Parser(tokenize(line)).parseLine();
}
