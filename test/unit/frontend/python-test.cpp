// Finds expressions in lines of Python.
#include "lib/Frontend/ONNX/Record/Python.h"

#include <gtest/gtest.h>

using namespace shale::onnx;
using Kind = PyExpr::Kind;

namespace {

/// Writes an expression with all its parentheses.
std::string written(const PyExpr &e) {
  std::string parts;
  for (size_t i = 0; i < e.parts.size(); ++i)
    parts +=
        (i ? " " : "") +
        (e.kind == Kind::Call && i && !e.keywords[i - 1].empty() ? e.keywords[i - 1] + "=" : "") +
        written(e.parts[i]);
  switch (e.kind) {
  case Kind::Name:
    return e.text;
  case Kind::Number:
    return (e.number < 0 ? "-" : "") + e.text;
  case Kind::Attribute:
    return parts + "." + e.text;
  case Kind::Call:
    return "call(" + parts + ")";
  case Kind::Index:
    return "index(" + parts + ")";
  case Kind::Slice:
    return "slice(" + parts + ")";
  case Kind::Unary:
  case Kind::Binary:
    return "(" + e.text + " " + parts + ")";
  case Kind::List:
    return "[" + parts + "]";
  case Kind::Other:
    return "?" + e.text + (parts.empty() ? "" : "{" + parts + "}");
  }
  return "";
}

std::string all(llvm::StringRef line) {
  std::string text;
  for (const PyExpr &e : expressionsIn(line))
    text += (text.empty() ? "" : " | ") + written(e);
  return text;
}

TEST(Python, Precedence) {
  EXPECT_EQ(all("return a + b * c ** -d - e"), "(- (+ a (* b (** c (- d)))) e)");
  EXPECT_EQ(all("-a ** 2"), "(- (** a 2))");
  EXPECT_EQ(all("x = (a + b) @ c / 2.5e-3"), "x | (/ (@ (+ a b) c) 2.5e-3)");
  EXPECT_EQ(all("2 ** 3 ** n"), "(** 2 (** 3 n))");
  EXPECT_EQ(all("a < b + 1 and not c"), "(and (< a (+ b 1)) (not c))");
  EXPECT_EQ(all("a not in b, c is not d"), "(in a b) | (is c d)");
}

TEST(Python, PartsOfStatements) {
  EXPECT_EQ(all(") * torch.exp(self.a),"), "call(torch.exp self.a)");
  EXPECT_EQ(all("return F.linear("), "call(F.linear)");
  EXPECT_EQ(all("h += self.s * x"), "(+ h (* self.s x))");
  EXPECT_EQ(all("h += "), "h");
  EXPECT_EQ(all("def forward(s, x): return s.a(x) * s.c  # twice * x"),
            "call(forward s x) | (* call(s.a x) s.c)");
  EXPECT_EQ(all("(a + b"), "(+ a b)");
  EXPECT_EQ(all("(a,"), "[a]");
  EXPECT_EQ(all("q, k = f(x), g(\"a)*b\", 'c')"), "q | k | call(f x) | call(g ?\"a)*b\" ?'c')");
  EXPECT_EQ(all(""), "");
  EXPECT_EQ(all("]]] ** ///"), "");
}

TEST(Python, CallsAndIndices) {
  EXPECT_EQ(all("x.clamp(min=0, max=4.6)"), "call(x.clamp min=0 max=4.6)");
  EXPECT_EQ(all("p[:, 1:t, None, ..., ::2]"),
            "index(p slice(? ? ?) slice(1 t ?) None ?... slice(? ? 2))");
  EXPECT_EQ(all("f(*a)"), "?{f a}");
  EXPECT_EQ(all("[a for a in b]"), "?{a (in a b)}");
  EXPECT_EQ(all("a if c else b"), "?{a c b}");
  EXPECT_EQ(all("lambda a: a + 1"), "?{(+ a 1)}");
  EXPECT_EQ(all("f\"{x}\" + 0x10"), "(+ ?f\"{x}\" 0x10)");
}

TEST(Python, HostileLines) {
  EXPECT_EQ(all(std::string(2000, 'a')), "");
  EXPECT_EQ(all(std::string(1000, '(')), "");
  EXPECT_EQ(all(std::string(1000, '-')), "");
  EXPECT_EQ(all(std::string(1000, '[') + "a"), "");
  EXPECT_EQ(all("\"\\"), "?\"\\");
  EXPECT_EQ(all("'''a"), "?'''a");
  EXPECT_EQ(all("1e+ .5 1..2"), "1e+ | .5 | ?1..2");
  EXPECT_NE(all("\xff\xfe*a"), "");
}

} // namespace
