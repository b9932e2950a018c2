//===- ThreadEmitter.h - Emits the elements of one GPU thread -------------===//
#ifndef SHALE_TARGET_CUDA_THREADEMITTER_H
#define SHALE_TARGET_CUDA_THREADEMITTER_H

#include "lib/Codegen/NestEmitter.h"

namespace shale {

/// Returns the bytes that a value of a scalar or vector type takes in memory.
int64_t valueBytes(mlir::Type type);

/// Emits scalars: a thread's neighbouring elements are emitted one by one, with indices that differ
/// by a constant. finishAccesses() then turns loads and stores of neighbours into wide ones.
class ThreadEmitter final : public NestEmitter {
public:
  using NestEmitter::NestEmitter;

  /// Maximum bytes of one access.
  static constexpr int64_t accessBytes = 16;

  mlir::Value number(const LinearIndex &index, mlir::Type element) override;
  mlir::Value widen(const LinearIndex &, mlir::Value value) override { return value; }

  /// Replaces the loads and stores of neighbouring elements by vector accesses of up to 16 bytes,
  /// where the index is a multiple of their size. Buffers start at multiples of 64 bytes
  /// (rt::kAlignment). A load at a guarded index gives 0 where the guard is false. Call it once,
  /// after everything is emitted.
  void finishAccesses();

private:
  mlir::Value load(mlir::Value memref, mlir::Type element, const LinearIndex &index) override;
  void store(mlir::Value memref, const LinearIndex &index, mlir::Value element) override;
  bool isVector(const LinearIndex &) const override { return false; }

  /// An access to one element. Accesses with the same key differ in their constants only.
  struct Key {
    mlir::Value memref;
    mlir::Block *block;
    llvm::SmallVector<std::pair<unsigned, int64_t>, 4> terms;
    llvm::SmallVector<mlir::Value, 1> guards = {}; ///< they follow from the terms
    bool operator<(const Key &other) const;
  };
  struct Access {
    int64_t constant;
    mlir::Operation *op;
  };
  /// In the order of emission, so that the code does not depend on addresses.
  struct Accesses {
    std::map<Key, size_t> places;
    std::vector<std::pair<Key, std::vector<Access>>> entries;

    void add(const Key &key, Access access);
  };

  /// Calls `replace` for each run of neighbours that becomes one access, and for single ones.
  void forEachGroup(Accesses &accesses,
                    llvm::function_ref<void(const Key &, llvm::ArrayRef<Access>)> replace);
  void replaceLoads(const Key &key, llvm::ArrayRef<Access> group);
  void replaceStores(const Key &key, llvm::ArrayRef<Access> group);

  Accesses loads, stores;
};

} // namespace shale

#endif // SHALE_TARGET_CUDA_THREADEMITTER_H
