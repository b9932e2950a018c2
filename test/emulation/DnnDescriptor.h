// Descriptors of the emulated cuDNN: attributes by name, with types and counts from a table.
#ifndef SHALE_TEST_EMULATION_DNNDESCRIPTOR_H
#define SHALE_TEST_EMULATION_DNNDESCRIPTOR_H

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shale::stub {

struct Descriptor;
using Part = std::shared_ptr<const Descriptor>;

/// The value of an attribute.
struct Attribute {
  int64_t count = 0;
  std::vector<char> bytes; ///< empty for descriptors
  std::vector<Part> parts;
};

/// The object behind a descriptor handle. Descriptors that refer to it share its ownership.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  std::shared_ptr<const void> made; ///< what finalizing made of it

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) > 0; }
  /// An element of an attribute that is set.
  template <typename Type> Type get(cudnnBackendAttributeName_t name, int64_t index = 0) const {
    return reinterpret_cast<const Type *>(attributes.at(name).bytes.data())[index];
  }
  template <typename Type> Type get(cudnnBackendAttributeName_t name, Type otherwise, int) const {
    return has(name) ? get<Type>(name) : otherwise;
  }
  template <typename Type> std::vector<Type> all(cudnnBackendAttributeName_t name) const {
    std::vector<Type> values;
    for (int64_t i = 0; has(name) && i < attributes.at(name).count; ++i)
      values.push_back(get<Type>(name, i));
    return values;
  }
  /// Null if it is not set.
  Part part(cudnnBackendAttributeName_t name) const {
    return has(name) ? attributes.at(name).parts[0] : nullptr;
  }
  /// What finalizing made, of the type that belongs to the descriptor's.
  template <typename Type> const Type &as() const { return *static_cast<const Type *>(made.get()); }
};

/// What a cudnnBackendDescriptor_t points to.
struct Holder {
  std::shared_ptr<Descriptor> body;
};
inline Descriptor &of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Holder *>(descriptor)->body;
}

/// Sets the text of cudnnGetLastErrorString and returns `status`.
cudnnStatus_t refuse(cudnnStatus_t status, const std::string &text);

/// Finalizes a descriptor whose required attributes are set: checks it and makes `made`.
cudnnStatus_t finish(Descriptor &descriptor);
/// Answers attributes that are computed. `known` says whether `name` is one.
cudnnStatus_t compute(const Descriptor &descriptor, cudnnBackendAttributeName_t name,
                      int64_t requested, int64_t *count, void *values, bool &known);

/// The status of a name, or -1.
int parseDnnStatus(const std::string &name);

} // namespace shale::stub

/// The start of an exported function: an error that the environment asks for.
#define SHALE_DNN_ENTER(function)                                                                  \
  if (int error = shale::stub::injected(function, shale::stub::parseDnnStatus))                    \
  return shale::stub::refuse(static_cast<cudnnStatus_t>(error),                                    \
                             std::string("injected into ") + (function))
#define SHALE_DNN_REQUIRE(condition, status, text)                                                 \
  if (!(condition))                                                                                \
  return shale::stub::refuse(CUDNN_STATUS_##status, text)

#endif
