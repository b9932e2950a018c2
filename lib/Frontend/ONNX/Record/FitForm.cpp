//===- FitForm.cpp - Nodes against the form of their operation ------------===//
#include "lib/Frontend/ONNX/Record/FitForm.h"
#include "lib/Frontend/ONNX/Record/TracedRecord.h"
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <cmath>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// Larger constants are not compared: shapes, axes and numbers are smaller.
static constexpr int64_t kMaxElements = 64;
/// The `lowest` number of a form is below this one.
static constexpr double kLargestLowest = -65000;
/// Nodes that a value is followed through one by one, and in all for one operation. A file may have
/// cycles, which are an error elsewhere.
static constexpr int kMaxDepth = 8;
static constexpr int kMaxSteps = 4096;

/// Records have numbers in f64, and files in f32, or narrower.
static constexpr double kRounding = 1e-6;

static bool isEqual(double found, double expected, double rounding = kRounding) {
  return found == expected || (std::isnan(found) && std::isnan(expected)) ||
         (std::isfinite(expected) && std::abs(found - expected) <= rounding * std::abs(expected));
}

/// Returns the largest relative error of a number in an ONNX data type.
static double roundingOf(int32_t dataType) {
  return dataType == 16 ? 0x1p-8 : dataType == 10 ? 0x1p-11 : kRounding;
}

FormFitter::FormFitter(const TracedRecord &record) : record(record) {
  const GraphProto &graph = record.graph();
  for (const TensorProto &tensor : graph.initializer())
    constants[tensor.name()] = &tensor;
  for (const NodeProto &node : graph.node())
    if (node.op_type() == "Constant" && node.attribute_size() == 1 && node.output_size() == 1 &&
        node.attribute(0).name() == "value")
      constants[node.output(0)] = &node.attribute(0).t();
  for (const auto *values : {&graph.value_info(), &graph.input(), &graph.output()})
    for (const ValueInfoProto &value : *values)
      types[value.name()] = &value;
}

bool FormFitter::isFloat(StringRef value) const {
  const ValueInfoProto *info = types.lookup(value);
  return info && isFloatType(info->type().tensor_type().elem_type());
}

std::optional<FormFitter::Items> FormFitter::elementsOf(StringRef value) const {
  const TensorProto *tensor = constants.lookup(value);
  if (!tensor)
    return std::nullopt;
  int64_t count = 1;
  for (int64_t size : tensor->dims())
    if (size < 0 || (count *= std::min(size, kMaxElements + 1)) > kMaxElements)
      return std::nullopt;
  std::optional<Numbers> numbers = record.numbersOf(*tensor);
  if (!numbers)
    return std::nullopt;
  Items items{{}, roundingOf(tensor->data_type())};
  for (double number : numbers->values)
    items.list.push_back(Argument::of(number));
  return items;
}

std::optional<SmallVector<int64_t>> FormFitter::shapeOf(StringRef value) const {
  const ValueInfoProto *info = types.lookup(value);
  if (!info || !info->type().has_tensor_type() || !info->type().tensor_type().has_shape())
    return std::nullopt;
  SmallVector<int64_t> shape;
  for (const auto &dim : info->type().tensor_type().shape().dim())
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  return shape;
}

namespace shale::onnx {

/// The comparison of one operation.
class OneFit {
public:
  OneFit(FormFitter &fitter, const TracedOperation &operation, const Form &form);

  Fit run(Difference &difference);

private:
  bool applies(const Choice &choice) const;
  Fit fitChoice(const Choice &choice);
  Fit fitEither(const Term &term, llvm::function_ref<Fit(const Term &)> fitPart);
  Form::Parameter::Shape shapeOf(StringRef parameter) const;
  bool isMade(StringRef value, StringRef placeholder) const;
  void addMeaning(const NodeProto &reader, int operand, const Argument &argument, bool isFlat);
  void addTurned(const Term &term, const NodeProto &reader, int operand);
  Fit fitOperand(const Term &term, const NodeProto &reader, int operand);
  Fit fitArgument(const Argument &argument, StringRef value,
                  const std::optional<FormFitter::Items> &items);
  Fit fitNode(const Term &term, const NodeProto &node);
  Fit fitEach(const Term &term, const NodeProto &node, int operand);
  Fit fitAttributes(const Term &term, const NodeProto &node);
  Fit fitAttribute(const NodeProto &node, const Term &term, StringRef name, const Argument &found);
  std::optional<Argument> valueOf(const Term &term, size_t size) const;
  std::optional<FormFitter::Items> itemsOf(StringRef value, int depth = 0) const;
  StringRef behindCasts(StringRef value, StringRef stop = "") const;
  bool hasNodesOf(const Term &term) const;
  Fit differ(const NodeProto &node, int operand, StringRef attribute, std::string found,
             std::string expected);

  FormFitter &fitter;
  const TracedOperation &operation;
  const Form &form;
  llvm::StringMap<Argument> arguments;
  llvm::SmallPtrSet<const NodeProto *, 8> nodes;
  std::optional<Difference> first;
  mutable int steps = 0; // of itemsOf
  std::vector<std::pair<std::pair<const NodeProto *, int>, FormFitter::Meaning>> meanings;
};

} // namespace shale::onnx

OneFit::OneFit(FormFitter &fitter, const TracedOperation &operation, const Form &form)
    : fitter(fitter), operation(operation), form(form) {
  nodes.insert(operation.nodes.begin(), operation.nodes.end());
  for (const Form::Parameter &parameter : form.parameters)
    arguments[parameter.name] = parameter.missing;
  for (auto [i, parameter] : llvm::enumerate(form.parameters))
    if (const Argument *given = operation.fx.argument(i, parameter.name); given && !given->isNone())
      arguments[parameter.name] = *given;
}

/// Records the first difference.
Fit OneFit::differ(const NodeProto &node, int operand, StringRef attribute, std::string found,
                   std::string expected) {
  if (!first)
    first = {&node, operand, attribute.str(), std::move(found), std::move(expected)};
  return Fit::No;
}

/// Returns the worse of two results.
static Fit both(Fit lhs, Fit rhs) {
  for (Fit fit : {Fit::Other, Fit::No, Fit::Open})
    if (lhs == fit || rhs == fit)
      return fit;
  return Fit::Yes;
}

bool onnx::isAnywhere(StringRef op) {
  static const llvm::StringSet<> names = {"Constant", "Cast",   "CastLike", "Reshape", "Unsqueeze",
                                          "Squeeze",  "Concat", "Shape",    "Slice",   "Gather",
                                          "Identity", "Expand", "Transpose"};
  return names.contains(op);
}

static bool isCast(const NodeProto &node) {
  return node.input_size() > 0 &&
         llvm::is_contained({"Cast", "CastLike", "Identity"}, node.op_type());
}

static void addKinds(const Term &term, std::set<std::string> &kinds) {
  if (term.kind == Term::Kind::Node && !isAnywhere(term.name))
    kinds.insert(term.name);
  for (const Term &part : term.parts)
    addKinds(part, kinds);
}

/// Whether the operation has the kinds of nodes that a term has, in whatever order.
bool OneFit::hasNodesOf(const Term &term) const {
  std::set<std::string> wanted, found;
  addKinds(term, wanted);
  for (const NodeProto *node : nodes)
    if (!isAnywhere(node->op_type()))
      found.insert(node->op_type());
  return wanted.size() > 1 && wanted == found;
}

bool OneFit::applies(const Choice &choice) const {
  auto guard = choice.onlyIf.empty() ? arguments.end() : arguments.find(choice.onlyIf);
  if (guard == arguments.end())
    return true;
  const Argument &given = guard->second;
  bool isEqual = given.isNumber() && choice.is.isNumber() ? given.number == choice.is.number
                                                          : given.str() == choice.is.str();
  return isEqual != choice.isNegated;
}

Fit OneFit::run(Difference &difference) {
  bool isOther = true, sameNodes = false;
  for (const Choice &choice : form.choices) {
    if (!applies(choice))
      continue;
    meanings.clear();
    Fit fit = fitChoice(choice);
    if (fit == Fit::Yes || fit == Fit::Open) {
      for (auto &[place, meaning] : meanings)
        fitter.meanings.insert_or_assign(place, meaning);
      return fit;
    }
    isOther &= fit == Fit::Other;
    sameNodes |= fit == Fit::Other && hasNodesOf(choice.term);
  }
  if (isOther && !sameNodes)
    return Fit::Other;
  difference = first.value_or(Difference{operation.nodes.back(), -1, "", "", ""});
  return Fit::No;
}

Fit OneFit::fitChoice(const Choice &choice) {
  if (choice.ofEvery) {
    Fit result = Fit::Yes;
    int place = 0;
    for (const NodeProto *node : operation.nodes)
      if (node->op_type() == choice.term.name) {
        arguments["place"] = Argument::of(place++);
        result = both(result, fitNode(choice.term, *node));
      }
    return place ? result : Fit::Other;
  }
  // The node of the operation's own name, else the last one that is no constant.
  const NodeProto *root = nullptr;
  for (const NodeProto *node : operation.nodes) {
    if (node->op_type() != "Constant")
      root = node;
    if (llvm::is_contained(node->output(), operation.fx.name))
      break;
  }
  return root ? fitNode(choice.term, *root) : Fit::Other;
}

/// Returns the value that this operation casts to `value`, if it does. A cast of the kind `stop` is
/// kept.
StringRef OneFit::behindCasts(StringRef value, StringRef stop) const {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const NodeProto *node = fitter.record.nodeOf(value);
    if (!node || !nodes.contains(node) || !isCast(*node) || node->op_type() == stop)
      break;
    value = node->input(0);
  }
  return value;
}

/// Takes the first part that fits.
Fit OneFit::fitEither(const Term &term, llvm::function_ref<Fit(const Term &)> fitPart) {
  std::optional<Difference> before = first;
  size_t count = meanings.size();
  Fit best = Fit::Other;
  for (const Term &part : term.parts) {
    Fit fit = fitPart(part);
    if (fit == Fit::Yes || fit == Fit::Open) {
      first = before;
      return fit;
    }
    meanings.resize(count);
    best = fit == Fit::No ? Fit::No : best;
  }
  return best;
}

Form::Parameter::Shape OneFit::shapeOf(StringRef parameter) const {
  for (const Form::Parameter &one : form.parameters)
    if (one.name == parameter)
      return one.shape;
  return {};
}

/// Whether a value is a constant, and not the parameter `placeholder` under its own name.
bool OneFit::isMade(StringRef value, StringRef placeholder) const {
  std::optional<size_t> parameter = fitter.record.parameterOf(placeholder);
  return fitter.constants.contains(value) &&
         !(parameter && fitter.record.target(*parameter) == value);
}

/// Records that an operand is an argument, also behind the operation's own casts and movements.
void OneFit::addMeaning(const NodeProto &reader, int operand, const Argument &argument,
                        bool isFlat) {
  FormFitter::Meaning meaning{
      .isArgument = true, .value = argument.isValue() ? argument.text : "", .isFlat = isFlat};
  const NodeProto *node = &reader;
  for (int depth = 0; depth < kMaxDepth && node && nodes.contains(node); ++depth) {
    meanings.push_back({{node, operand}, meaning});
    node = operand < node->input_size() ? fitter.record.nodeOf(node->input(operand)) : nullptr;
    operand = 0;
    if (node &&
        !(isAnywhere(node->op_type()) && node->op_type() != "Concat" && node->op_type() != "Shape"))
      break;
  }
}

/// Records that an operand is an argument that the exporter transposed and then folded, if the term
/// is its transpose: as it is, or a matrix.
void OneFit::addTurned(const Term &term, const NodeProto &reader, int operand) {
  bool isTurn = term.name == "Transpose" && term.parts.front().kind == Term::Kind::Argument;
  auto argument = isTurn ? arguments.find(term.parts.front().name) : arguments.end();
  const TensorProto *constant =
      operand < reader.input_size() ? fitter.constants.lookup(reader.input(operand)) : nullptr;
  if (argument == arguments.end() || !argument->second.isValue() || !constant)
    return;
  std::optional<Argument> order = valueOf(term.attributes.front().second, constant->dims_size());
  std::vector<double> dims;
  for (const Argument &dim : order ? order->items : std::vector<Argument>())
    dims.push_back(dim.isNumber() ? dim.number : -1);
  if (int(dims.size()) == constant->dims_size() && (llvm::is_sorted(dims) || dims.size() == 2))
    meanings.push_back(
        {{&reader, operand},
         {.isArgument = true, .value = argument->second.text, .isTurned = !llvm::is_sorted(dims)}});
}

Fit OneFit::fitOperand(const Term &term, const NodeProto &reader, int operand) {
  StringRef value = operand < reader.input_size() ? StringRef(reader.input(operand)) : "";
  switch (term.kind) {
  case Term::Kind::Any:
    return Fit::Yes;
  case Term::Kind::Either: {
    // A node that one part of the form matches is not the argument that another part stands for.
    const NodeProto *made = fitter.record.nodeOf(value);
    bool isOfPart = made && nodes.contains(made) && llvm::any_of(term.parts, [&](const Term &part) {
                      return part.kind == Term::Kind::Node && part.name == made->op_type();
                    });
    return fitEither(term, [&](const Term &part) {
      return isOfPart && part.kind == Term::Kind::Argument ? Fit::Other
                                                           : fitOperand(part, reader, operand);
    });
  }
  case Term::Kind::Node: {
    const NodeProto *node = fitter.record.nodeOf(behindCasts(value, term.name));
    if (node && node->op_type() != "Constant")
      return fitNode(term, *node);
    // A constant that the exporter folded, or an operand that it left out.
    addTurned(term, reader, operand);
    return fitter.constants.count(value) ? Fit::Open : Fit::Other;
  }
  default:
    break;
  }
  std::optional<FormFitter::Items> items = itemsOf(value);
  std::optional<Argument> argument = valueOf(term, items ? items->list.size() : 0);
  if (!argument)
    return Fit::Open;
  if (term.kind == Term::Kind::Argument)
    if (Form::Parameter::Shape shape = shapeOf(term.name);
        shape != Form::Parameter::Shape::Open || !isMade(value, argument->text))
      addMeaning(reader, operand, *argument, shape == Form::Parameter::Shape::Flat);
  Fit fit = fitArgument(*argument, value, items);
  if (fit == Fit::Yes && argument->isNumber())
    meanings.push_back({{&reader, operand}, {.isArgument = true, .isNumber = true}});
  if (fit != Fit::No)
    return fit;
  std::string found = "'" + displayName(value) + "'";
  if (items && !argument->isValue())
    found = items->list.size() == 1 ? items->list.front().str() : Argument::of(items->list).str();
  return differ(reader, operand, "", found, argument->str());
}

/// Returns the elements of a value of sizes or numbers; none if it is not known.
std::optional<FormFitter::Items> OneFit::itemsOf(StringRef value, int depth) const {
  if (std::optional<FormFitter::Items> elements = fitter.elementsOf(value))
    return elements;
  const NodeProto *node = fitter.record.nodeOf(value);
  if (!node || depth > kMaxDepth || node->input_size() == 0 || ++steps > kMaxSteps)
    return std::nullopt;
  StringRef op = node->op_type();
  const TracedOperation *maker = fitter.record.makerOf(value);
  if (maker && node->output(0) == value && !nodes.contains(node))
    return FormFitter::Items{{{Argument::Kind::Value, maker->fx.name}}};
  if (op == "Concat") {
    FormFitter::Items items;
    for (const std::string &part : node->input()) {
      std::optional<FormFitter::Items> more = itemsOf(part, depth + 1);
      if (!more)
        return std::nullopt;
      llvm::append_range(items.list, more->list);
    }
    return items;
  }
  if (llvm::is_contained({"Reshape", "Squeeze", "Unsqueeze", "Cast", "CastLike", "Identity"}, op))
    return itemsOf(node->input(0), depth + 1);
  std::optional<FormFitter::Items> root =
      op == "Sqrt" ? itemsOf(node->input(0), depth + 1) : std::nullopt;
  if (!root || root->list.size() != 1 || !root->list.front().isNumber())
    return std::nullopt;
  return FormFitter::Items{{Argument::of(std::sqrt(root->list.front().number))}, root->rounding};
}

/// Compares an item of a list, or a number. `hasSizes`: the list has sizes that the record does not
/// have as numbers.
static Fit fitItem(const Argument &found, const Argument &expected, double rounding,
                   bool hasSizes) {
  if (!found.isNumber() || !expected.isNumber()) // the exporter may have folded a size
    return found.isValue() && expected.isValue() && found.text == expected.text ? Fit::Yes
                                                                                : Fit::Open;
  // Where PyTorch keeps a size by -1, ONNX keeps it by 1. The exporter's optimizer moves a -1 to a
  // size that is not known.
  if (isEqual(found.number, expected.number, std::max(rounding, kRounding)) ||
      (expected.number == -1 && found.number == 1))
    return Fit::Yes;
  return expected.number == -1 && hasSizes ? Fit::Open : Fit::No;
}

/// `items`: the elements of the value, if they are known.
Fit OneFit::fitArgument(const Argument &argument, StringRef value,
                        const std::optional<FormFitter::Items> &items) {
  if (argument.isValue()) {
    value = behindCasts(value);
    const NodeProto *node = fitter.record.nodeOf(value);
    if (node && nodes.contains(node)) // the operation computes with the argument first
      return isAnywhere(node->op_type()) ? Fit::Open : Fit::Other;
    return fitter.record.fitValue(argument.text, value);
  }
  if (argument.isNone() || value.empty()) { // the exporter may add a constant of ones or zeros
    const NodeProto *node = fitter.record.nodeOf(value);
    return node && node->op_type() != "Constant" ? Fit::Other : Fit::Open;
  }
  if (!items)
    return Fit::Open;
  const std::vector<Argument> &list = items->list;
  if (argument.kind == Argument::Kind::Text)
    return argument.text == kLowest && list.size() == 1 && list.front().isNumber() &&
                   !(list.front().number < kLargestLowest)
               ? Fit::No
               : Fit::Open;
  if (argument.isNumber())
    return list.size() == 1 ? fitItem(list.front(), argument, items->rounding, false) : Fit::Open;
  if (list.size() != argument.items.size())
    return Fit::Open;
  bool hasSizes = llvm::any_of(argument.items, [](const Argument &item) { return item.isValue(); });
  Fit result = Fit::Yes;
  for (auto [found, expected] : llvm::zip(list, argument.items))
    result = both(result, fitItem(found, expected, items->rounding, hasSizes));
  return result;
}

/// Compares the operands from `operand` on with the items of a list.
Fit OneFit::fitEach(const Term &term, const NodeProto &node, int operand) {
  const Term *argument = &term.parts.front();
  while (argument->kind == Term::Kind::Node && !argument->parts.empty())
    argument = &argument->parts.front();
  auto list = arguments.find(argument->name);
  if (argument->kind != Term::Kind::Argument || list == arguments.end() ||
      int(list->second.items.size()) != node.input_size() - operand)
    return Fit::Open;
  Argument whole = list->second;
  Fit result = Fit::Yes;
  for (const Argument &one : whole.items) {
    list->second = one;
    result = both(result, fitOperand(term.parts.front(), node, operand++));
  }
  list->second = whole;
  return result;
}

Fit OneFit::fitNode(const Term &term, const NodeProto &node) {
  if (term.kind == Term::Kind::Either)
    return fitEither(term, [&](const Term &part) { return fitNode(part, node); });
  if (term.kind != Term::Kind::Node || term.name != node.op_type())
    return Fit::Other;
  Fit result = fitAttributes(term, node);
  for (auto [i, part] : llvm::enumerate(term.parts))
    result = both(result, part.kind == Term::Kind::Each ? fitEach(part, node, i)
                                                        : fitOperand(part, node, i));
  return result;
}

Fit OneFit::fitAttributes(const Term &term, const NodeProto &node) {
  Fit result = Fit::Yes;
  llvm::StringSet<> there;
  for (const AttributeProto &attribute : node.attribute()) {
    StringRef name = attribute.name();
    there.insert(name);
    std::optional<Argument> found = attributeOf(attribute);
    auto named = llvm::find_if(term.attributes, [&](const auto &one) { return one.first == name; });
    std::optional<Argument> missing = missingAttribute(node.op_type(), name);
    if (found && named != term.attributes.end())
      result = both(result, fitAttribute(node, named->second, name, *found));
    else if (found && missing)
      result = both(result, fitAttribute(node, {Term::Kind::Literal, "", *missing}, name, *found));
  }
  for (const auto &[name, value] : term.attributes)
    if (std::optional<Argument> missing = missingAttribute(node.op_type(), name);
        missing && !there.contains(name))
      result = both(result, fitAttribute(node, value, name, *missing));
  return result;
}

Fit OneFit::fitAttribute(const NodeProto &node, const Term &term, StringRef name,
                         const Argument &found) {
  if (term.kind == Term::Kind::Any)
    return Fit::Yes;
  std::optional<Argument> expected = valueOf(term, found.items.size());
  if (!expected || expected->isNone() || expected->isValue())
    return Fit::Open;
  if (expected->kind == Argument::Kind::List && found.isNumber() && expected->items.size() == 1)
    expected = expected->items.front();
  bool isAxis = name == "axis" || name == "perm";
  std::optional<SmallVector<int64_t>> shape =
      isAxis && node.output_size() > 0 ? fitter.shapeOf(node.output(0)) : std::nullopt;
  auto fitNumber = [&](const Argument &lhs, const Argument &rhs) {
    if (!lhs.isNumber() || !rhs.isNumber())
      return Fit::Open;
    if (isEqual(lhs.number, rhs.number))
      return Fit::Yes;
    // -1 counts from the end.
    if (!isAxis || (lhs.number < 0) == (rhs.number < 0))
      return Fit::No;
    if (!shape)
      return Fit::Open;
    return std::abs(lhs.number - rhs.number) == double(shape->size()) ? Fit::Yes : Fit::No;
  };
  Fit fit = Fit::Open;
  if (found.isNumber())
    fit = fitNumber(found, *expected);
  else if (found.kind == Argument::Kind::Text && expected->kind == Argument::Kind::Text)
    fit = found.text == expected->text ? Fit::Yes : Fit::No;
  else if (found.items.size() == expected->items.size())
    for (auto [lhs, rhs] : llvm::zip(found.items, expected->items))
      fit = both(fit, fitNumber(lhs, rhs));
  return fit == Fit::No ? differ(node, -1, name, found.str(), expected->str()) : fit;
}

std::optional<Argument> OneFit::valueOf(const Term &term, size_t size) const {
  auto shapeOf = [&](StringRef value) { return fitter.shapeOf(value); };
  // An operation whose last node was merged into another one has no value of its name.
  auto isThere = [&](StringRef value) {
    return fitter.record.nodeOf(value) || fitter.record.isInput(value);
  };
  return evaluate(term, size, {arguments, shapeOf, isThere});
}

Fit FormFitter::fit(const TracedOperation &operation, Difference &difference) {
  const Form *form = exporterForms().find(operation.fx.target);
  return form ? OneFit(*this, operation, *form).run(difference) : Fit::Other;
}
