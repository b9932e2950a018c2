//===- Known.cpp - What is known of the parameters so far -----------------===//
#include "lib/Frontend/ONNX/Record/Known.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

SmallVector<Place> FoldedValue::places() const {
  SmallVector<Place> places;
  for (const FoldedRead &read : reads)
    places.push_back({read.node, read.operand});
  return places;
}

bool Known::isMissing(size_t index) const {
  return parameter(index).isParameter && !parameter(index).used && !isAlias[index];
}

/// Returns a matrix of which `numbers` is the transpose, by rows.
static Numbers transposeOf(const Numbers &numbers) {
  Numbers turned = numbers;
  int64_t rows = numbers.shape[1], columns = numbers.shape[0];
  turned.shape = {rows, columns};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      turned.values[r * columns + c] = numbers.values[c * rows + r];
  return turned;
}

const Numbers *Known::numbersOf(size_t index) const {
  auto [it, isNew] = cache.try_emplace(index);
  const Parameter &one = parameter(index);
  if (isNew && one.initializer) {
    it->second = program.numbersOf(*one.initializer);
    if (it->second && !one.shape.empty())
      it->second->shape.assign(one.shape.begin(), one.shape.end());
    if (it->second && one.transposed)
      it->second = transposeOf(*it->second);
  } else if (isNew && one.used && !one.values.empty()) {
    it->second = Numbers{SmallVector<int64_t>(one.shape.begin(), one.shape.end()), one.values};
  }
  return it->second ? &*it->second : nullptr;
}

bool Known::haveEqualValues(size_t index, size_t other) const {
  const Parameter &a = parameter(index), &b = parameter(other);
  if (a.initializer && a.initializer == b.initializer && a.transposed == b.transposed)
    return true;
  const Numbers *left = numbersOf(index), *right = numbersOf(other);
  return left && right && left->shape == right->shape && left->values == right->values;
}

bool onnx::areNested(StringRef a, StringRef b) {
  auto contains = [](StringRef outer, StringRef inner) {
    return outer.empty() || inner == outer ||
           (inner.starts_with(outer) && inner[outer.size()] == '.');
  };
  return contains(a, b) || contains(b, a);
}

bool onnx::isConstant(const Numbers &numbers) {
  return llvm::all_of(numbers.values,
                      [&](double value) { return value == numbers.values.front(); });
}
