//===- ThreadEmitter.cpp - Emits the elements of one GPU thread -----------===//
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "dialects/interfaces/Float8.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

bool ThreadEmitter::Key::operator<(const Key &other) const {
  return std::make_tuple(memref.getAsOpaquePointer(), block, terms) <
         std::make_tuple(other.memref.getAsOpaquePointer(), other.block, other.terms);
}

void ThreadEmitter::Accesses::add(const Key &key, Access access) {
  auto [found, added] = places.try_emplace(key, entries.size());
  if (added)
    entries.push_back({key, {}});
  entries[found->second].second.push_back(access);
}

// ---- one element

Value ThreadEmitter::load(Value memref, Type element, const LinearIndex &index) {
  auto load = memref::LoadOp::create(b, loc, memref, indices.materialize(index));
  Key key{memref, load->getBlock(), index.terms, {}};
  indices.collectGuards(index, key.guards);
  loads.add(key, {index.constant, load});
  if (is16BitFloat(element) || is8BitFloat(element))
    return arith::BitcastOp::create(b, loc, element, load);
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, load,
                                 constantLike(b, loc, load.getType(), 0));
  return load;
}

void ThreadEmitter::store(Value memref, const LinearIndex &index, Value element) {
  if (element.getType().isInteger(1))
    element = arith::ExtUIOp::create(b, loc, b.getI8Type(), element);
  else if (is16BitFloat(element.getType()) || is8BitFloat(element.getType()))
    element = arith::BitcastOp::create(b, loc, memoryType(element.getType()), element);
  auto store = memref::StoreOp::create(b, loc, element, memref, indices.materialize(index));
  stores.add({memref, store->getBlock(), index.terms, {}}, {index.constant, store});
}

Value ThreadEmitter::number(const LinearIndex &index, Type element) {
  bool real = isa<FloatType>(element);
  auto [low, high] = indices.rangeOf(index);
  bool small = low >= INT32_MIN && high <= INT32_MAX;
  Type integer = real ? Type(b.getIntegerType(small ? 32 : 64)) : element;
  Value value = arith::IndexCastOp::create(b, loc, integer, indices.materialize(index));
  return real ? arith::SIToFPOp::create(b, loc, element, value) : value;
}

// ---- wide accesses

void ThreadEmitter::forEachGroup(Accesses &accesses,
                                 llvm::function_ref<void(const Key &, ArrayRef<Access>)> replace) {
  for (auto &[key, all] : accesses.entries) {
    auto element = cast<MemRefType>(key.memref.getType()).getElementType();
    int64_t widest = accessBytes * 8 / element.getIntOrFloatBitWidth();
    // All starts are multiples of this apart from their constants.
    int64_t multiple = widest;
    for (auto [id, coefficient] : key.terms)
      multiple = std::gcd(multiple, coefficient);
    llvm::stable_sort(
        all, [](const Access &lhs, const Access &rhs) { return lhs.constant < rhs.constant; });
    for (size_t at = 0; at < all.size();) {
      size_t width = llvm::bit_floor(uint64_t(multiple));
      auto fits = [&, &all = all] {
        if (at + width > all.size() || all[at].constant % int64_t(width) != 0)
          return false;
        for (size_t i = 1; i < width; ++i)
          if (all[at + i].constant != all[at].constant + int64_t(i))
            return false;
        return true;
      };
      while (width > 1 && !fits())
        width /= 2;
      replace(key, ArrayRef<Access>(all).slice(at, width));
      at += width;
    }
  }
}

static VectorType vectorFor(Value memref, size_t width) {
  return VectorType::get({int64_t(width)}, cast<MemRefType>(memref.getType()).getElementType());
}

int64_t shale::valueBytes(Type type) {
  int64_t count = 1;
  if (auto vector = dyn_cast<VectorType>(type))
    count = vector.getNumElements(), type = vector.getElementType();
  return count * type.getIntOrFloatBitWidth() / 8;
}

void ThreadEmitter::replaceLoads(const Key &key, ArrayRef<Access> group) {
  if (group.size() == 1 && key.guards.empty())
    return;
  Operation *first = group.front().op;
  for (const Access &access : group)
    if (access.op->isBeforeInBlock(first))
      first = access.op;
  b.setInsertionPoint(first);
  auto emitLoad = [&]() -> Value {
    Value start = indices.materialize({group.front().constant, key.terms});
    if (group.size() == 1)
      return memref::LoadOp::create(b, loc, key.memref, start);
    VectorType type = vectorFor(key.memref, group.size());
    return vector::LoadOp::create(b, loc, type, key.memref, start, /*nontemporal=*/false,
                                  llvm::MaybeAlign(valueBytes(type)));
  };
  Value loaded;
  if (key.guards.empty()) {
    loaded = emitLoad();
  } else {
    Value guard = key.guards.front();
    for (Value other : ArrayRef(key.guards).drop_front())
      guard = arith::AndIOp::create(b, loc, guard, other);
    Type type = cast<MemRefType>(key.memref.getType()).getElementType();
    if (group.size() > 1)
      type = vectorFor(key.memref, group.size());
    auto branch = scf::IfOp::create(b, loc, type, guard, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard position(b);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    scf::YieldOp::create(b, loc, emitLoad());
    b.setInsertionPointToStart(&branch.getElseRegion().front());
    scf::YieldOp::create(b, loc, constantLike(b, loc, type, 0));
    loaded = branch.getResult(0);
  }
  if (group.size() == 1) {
    first->getResult(0).replaceAllUsesWith(loaded);
    first->erase();
    return;
  }
  for (auto [i, access] : llvm::enumerate(group)) {
    Value element = vector::ExtractOp::create(b, loc, loaded, ArrayRef<int64_t>{int64_t(i)});
    access.op->getResult(0).replaceAllUsesWith(element);
  }
  for (const Access &access : group)
    access.op->erase();
}

void ThreadEmitter::replaceStores(const Key &key, ArrayRef<Access> group) {
  if (group.size() == 1)
    return;
  Operation *last = group.front().op;
  for (const Access &access : group)
    if (last->isBeforeInBlock(access.op))
      last = access.op;
  b.setInsertionPoint(last);
  VectorType type = vectorFor(key.memref, group.size());
  SmallVector<Value> elements;
  for (const Access &access : group)
    elements.push_back(cast<memref::StoreOp>(access.op).getValueToStore());
  Value wide = vector::FromElementsOp::create(b, loc, type, elements);
  Value start = indices.materialize({group.front().constant, key.terms});
  vector::StoreOp::create(b, loc, wide, key.memref, start, /*nontemporal=*/false,
                          llvm::MaybeAlign(valueBytes(type)));
  for (const Access &access : group)
    access.op->erase();
}

void ThreadEmitter::finishAccesses() {
  OpBuilder::InsertionGuard guard(b);
  forEachGroup(loads, [&](const Key &key, ArrayRef<Access> group) { replaceLoads(key, group); });
  forEachGroup(stores, [&](const Key &key, ArrayRef<Access> group) { replaceStores(key, group); });
}
