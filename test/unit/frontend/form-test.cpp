// Parses forms, and evaluates terms over the arguments of a record.
#include "lib/Frontend/ONNX/Record/Form.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/Support/Error.h"

#include <gtest/gtest.h>

using namespace shale::onnx;

namespace {

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<Forms> forms = Forms::parse(text);
  return forms ? "" : llvm::toString(forms.takeError());
}

TEST(Form, ParsesChoicesAndAttributes) {
  llvm::Expected<Forms> forms =
      Forms::parse("# a comment\n"
                   "let ROOT = Sqrt(x)\n"
                   "f.int(x, dim=-1, keep) = keep=None: A(ROOT, *y, [0, dim]){axis=neg(dim), "
                   "mode=\"sum\", other=_} | keep!=2: B(either(x, 1e-05)) | every: C(place)\n");
  ASSERT_TRUE(bool(forms));
  EXPECT_EQ(forms->find("aten.f.Tensor"), nullptr);
  EXPECT_EQ(forms->find("aten.g"), nullptr);
  const Form *form = forms->find("aten.f.int");
  ASSERT_NE(form, nullptr);
  ASSERT_EQ(form->parameters.size(), 3u);
  EXPECT_EQ(form->parameters[1].missing.number, -1);
  EXPECT_TRUE(form->parameters[2].missing.isNone());
  ASSERT_EQ(form->choices.size(), 3u);
  EXPECT_EQ(form->choices[0].onlyIf, "keep");
  EXPECT_TRUE(form->choices[0].is.isNone());
  const Term &first = form->choices[0].term;
  ASSERT_EQ(first.parts.size(), 3u);
  EXPECT_EQ(first.parts[0].name, "Sqrt");
  EXPECT_EQ(first.parts[1].kind, Term::Kind::Each);
  EXPECT_EQ(first.parts[2].kind, Term::Kind::List);
  ASSERT_EQ(first.attributes.size(), 3u);
  EXPECT_EQ(first.attributes[1].second.literal.text, "sum");
  EXPECT_EQ(first.attributes[2].second.kind, Term::Kind::Any);
  EXPECT_TRUE(form->choices[1].isNegated);
  EXPECT_EQ(form->choices[1].term.parts[0].kind, Term::Kind::Either);
  EXPECT_TRUE(form->choices[2].ofEvery);
}

TEST(Form, RefusesWhatIsNoForm) {
  for (const char *text :
       {"f(x", "f(x) A(x)", "f(x) =", "f(x) = A(x", "f(x) = A(x){axis}", "f(x) = A(x) B",
        "f(x) = unknown(x)", "f(x) = x=: A(x)", "let A", "f(x, ) = A(,)", "f(=1) = A(x)"})
    EXPECT_EQ(errorOf(text), std::string("no form: ") + text);
  EXPECT_EQ(errorOf("f(x) = A(x)\nf(x) = B(x)"), "'f' has two forms");
}

TEST(Form, ExportersFormsParse) {
  EXPECT_NE(exporterForms().find("aten.mean.dim"), nullptr);
  EXPECT_NE(exporterForms().find("aten.mul.Tensor"), nullptr);
  EXPECT_EQ(exporterForms().find("aten.mean.dim_names"), exporterForms().find("aten.mean.default"));
  EXPECT_EQ(exporterForms().find("aten.unknown.default"), nullptr);
}

TEST(Argument, ParsesWhatRecordsHave) {
  EXPECT_TRUE(parseArgument("None").isNone());
  EXPECT_EQ(parseArgument("True").number, 1);
  EXPECT_EQ(parseArgument("-inf").number, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parseArgument("1e-05").number, 1e-5);
  EXPECT_EQ(parseArgument("%mul_3").text, "mul_3");
  EXPECT_EQ(parseArgument("torch.float32").kind, Argument::Kind::Text);
  EXPECT_EQ(parseArgument("[%n, [1, -1], None]").str(), "[%n, [1, -1], None]");
  EXPECT_EQ(parseArgument("[]").items.size(), 0u);
  EXPECT_EQ(parseArgument("[").kind, Argument::Kind::Text);
  EXPECT_EQ(parseArgument(std::string(100, '[') + std::string(100, ']')).kind,
            Argument::Kind::List);
}

FxNode recordOf(const std::string &text) {
  NodeProto node;
  StringStringEntryProto &entry = *node.add_metadata_props();
  entry.set_key("pkg.torch.onnx.fx_node");
  entry.set_value(text);
  return readFxNode(node);
}

TEST(Argument, OfARecord) {
  FxNode einsum = recordOf("%einsum : [num_users=1] = call_function[target=torch.ops.aten.einsum."
                           "default](args = (btd,vd->btv, [%x, %w]), kwargs = {})");
  ASSERT_EQ(einsum.arguments.size(), 2u); // one of which has a comma
  EXPECT_EQ(einsum.arguments[0].second.text, "btd,vd->btv");
  FxNode sum = recordOf("%sum_1 : [num_users=1] = call_function[target=torch.ops.aten.sum."
                        "dim_IntList](args = (%x,), kwargs = {dim: [0, 1], keepdim: True, dtype: "
                        "None})");
  ASSERT_EQ(sum.arguments.size(), 4u);
  EXPECT_EQ(sum.argument(0)->text, "x");
  EXPECT_EQ(sum.argument(1, "dim")->str(), "[0, 1]");
  EXPECT_EQ(sum.number(2, "keepdim"), 1);
  EXPECT_EQ(sum.number(0), std::nullopt);
  EXPECT_EQ(sum.argument(1), nullptr);
}

TEST(Argument, OfABrokenRecord) {
  EXPECT_TRUE(recordOf("").name.empty());
  EXPECT_TRUE(recordOf("%").name.empty());
  EXPECT_TRUE(recordOf("%x : [target=aten.neg").arguments.empty());
  EXPECT_TRUE(recordOf("%x = call[target=a](args = (,,), kwargs = {:").arguments.empty());
}

/// Returns the value of a term over x = [2, 3, 4] elements of dimensions, dims = [-2], n = -1, s =
/// None.
std::string valueOf(const std::string &term, size_t size = 0) {
  llvm::Expected<Forms> forms = Forms::parse("f(x, dims, n, s, pads) = A(x){a=" + term + "}");
  if (!forms)
    return llvm::toString(forms.takeError());
  llvm::StringMap<Argument> arguments = {{"x", parseArgument("%x")},
                                         {"dims", parseArgument("[-2]")},
                                         {"n", parseArgument("-1")},
                                         {"s", {}},
                                         {"pads", parseArgument("[1, 2, 3, 4]")}};
  auto shapeOf = [](llvm::StringRef name) {
    return name == "x" ? std::optional(llvm::SmallVector<int64_t>{2, 3, 4}) : std::nullopt;
  };
  auto isThere = [](llvm::StringRef name) { return name == "x"; };
  std::optional<Argument> value =
      evaluate(forms->find("aten.f")->choices[0].term.attributes[0].second, size,
               {arguments, shapeOf, isThere});
  return value ? value->str() : "unknown";
}

TEST(Evaluate, Functions) {
  EXPECT_EQ(valueOf("neg(len(pads))"), "-4");
  EXPECT_EQ(valueOf("neg(pads)"), "unknown");
  EXPECT_EQ(valueOf("add(n, 3)"), "2");
  EXPECT_EQ(valueOf("sqrt(16)"), "4");
  EXPECT_EQ(valueOf("scale(s, x)"), "0.5");
  EXPECT_EQ(valueOf("scale(0.25, x)"), "0.25");
  EXPECT_EQ(valueOf("scale(s, pads)"), "unknown");
  EXPECT_EQ(valueOf("fill(n, 2)"), "[-1, -1]");
  EXPECT_EQ(valueOf("fill(pads, 2)"), "unknown");
  EXPECT_EQ(valueOf("twice(dims)"), "[-2, -2]");
  EXPECT_EQ(valueOf("swap(0, n)", 3), "[2, 1, 0]");
  EXPECT_EQ(valueOf("swap(0, 3)", 3), "unknown");
  EXPECT_EQ(valueOf("swap(0, 1e300)", 3), "unknown");
  EXPECT_EQ(valueOf("ends(pads)", 6), "[0, 3, 1, 0, 4, 2]");
  EXPECT_EQ(valueOf("ends(pads)", 2), "unknown");
  EXPECT_EQ(valueOf("rest(x, 1, n)"), "3");
  EXPECT_EQ(valueOf("rest(x, n, dims)"), "1");
  EXPECT_EQ(valueOf("rest(x, 1e300, 7)"), "unknown");
  EXPECT_EQ(valueOf("where_read(x, n)"), "-1");
  EXPECT_EQ(valueOf("where_read(pads, n)"), "unknown");
  EXPECT_EQ(valueOf("reduction(2)"), "sum");
  EXPECT_EQ(valueOf("lowest"), "lowest");
  EXPECT_EQ(valueOf("[dims, 1]"), "[[-2], 1]");
}

} // namespace
