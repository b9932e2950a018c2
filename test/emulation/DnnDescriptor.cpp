// The emulated cuDNN's functions on descriptors, and the attributes that it knows.
#include "DnnDescriptor.h"
#include "Faults.h"

#include <cstring>

using namespace shale::stub;

namespace {

/// An attribute that a user may set.
struct Known {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t most; ///< elements
  bool required;
};

#define KNOWN(of, name, type, most, required)                                                      \
  {CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, most, required}
#define PART(of, name, required) KNOWN(of, name, BACKEND_DESCRIPTOR, 1, required)
const Known table[] = {
    KNOWN(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, true),
    KNOWN(TENSOR, TENSOR_DIMENSIONS, INT64, 8, true),
    KNOWN(TENSOR, TENSOR_STRIDES, INT64, 8, true),
    KNOWN(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, true),
    KNOWN(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, true),
    KNOWN(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, false),
    KNOWN(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, false),
    KNOWN(TENSOR, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, 1, false),
    KNOWN(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, true),
    KNOWN(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, true),
    KNOWN(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, true),
    KNOWN(POINTWISE, POINTWISE_AXIS, INT64, 1, false),
    KNOWN(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, true),
    KNOWN(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, true),
    KNOWN(REDUCTION, REDUCTION_IS_DETERMINISTIC, BOOLEAN, 1, false),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_DESC, true),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, true),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, true),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, true),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, true),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, true),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, false),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, false),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, true),
    KNOWN(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA1, FLOAT, 1, false),
    KNOWN(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA2, FLOAT, 1, false),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, true),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, true),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, true),
    PART(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, true),
    PART(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, true),
    KNOWN(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 64, true),
    KNOWN(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, true),
    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, true),
    KNOWN(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, true),
    PART(ENGINE, ENGINE_OPERATION_GRAPH, true),
    KNOWN(ENGINE, ENGINE_GLOBAL_INDEX, INT64, 1, true),
    KNOWN(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, true),
    KNOWN(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, 1, true),
    PART(ENGINECFG, ENGINECFG_ENGINE, true),
    KNOWN(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 64, false),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, true),
    KNOWN(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 64, true),
    KNOWN(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 64, true),
    KNOWN(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, false),
};

bool knowsType(cudnnBackendDescriptorType_t type) {
  for (const Known &known : table)
    if (known.of == type)
      return true;
  return false;
}

const Known *find(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name) {
  for (const Known &known : table)
    if (known.of == type && known.name == name)
      return &known;
  return nullptr;
}

size_t sizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
    return 8;
  default: // enumerations and f32
    return 4;
  }
}

std::string place(cudnnBackendDescriptorType_t type, int name) {
  return "attribute " + std::to_string(name) + " of descriptor type " + std::to_string(type);
}

/// Fills a user's descriptors with `parts`.
void give(const std::vector<Part> &parts, int64_t requested, int64_t *count, void *values) {
  if (count)
    *count = static_cast<int64_t>(parts.size());
  auto *handles = static_cast<cudnnBackendDescriptor_t *>(values);
  for (size_t i = 0; values && i < parts.size() && i < size_t(requested); ++i)
    static_cast<Holder *>(handles[i])->body = std::const_pointer_cast<Descriptor>(parts[i]);
}

} // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
  SHALE_DNN_ENTER("cudnnBackendCreateDescriptor");
  SHALE_DNN_REQUIRE(made, BAD_PARAM_NULL_POINTER, "no place for the descriptor");
  SHALE_DNN_REQUIRE(knowsType(type), NOT_SUPPORTED,
                    "the stand-in has no descriptor type " + std::to_string(type));
  auto body = std::make_shared<Descriptor>();
  body->type = type;
  *made = new Holder{body};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  SHALE_DNN_ENTER("cudnnBackendDestroyDescriptor");
  delete static_cast<Holder *>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  SHALE_DNN_ENTER("cudnnBackendSetAttribute");
  SHALE_DNN_REQUIRE(descriptor && (values || count == 0), BAD_PARAM_NULL_POINTER, "a null pointer");
  Descriptor &body = of(descriptor);
  const Known *known = find(body.type, name);
  SHALE_DNN_REQUIRE(known, NOT_SUPPORTED, "the stand-in does not know " + place(body.type, name));
  SHALE_DNN_REQUIRE(type == known->type, BAD_PARAM_ATTRIBUTE_TYPE,
                    place(body.type, name) + " has another type");
  SHALE_DNN_REQUIRE(count >= 0 && count <= known->most, BAD_PARAM_OUT_OF_BOUND,
                    place(body.type, name) + " has another number of elements");
  SHALE_DNN_REQUIRE(!body.finalized, BAD_PARAM, place(body.type, name) + " is finalized");
  Attribute attribute;
  attribute.count = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      auto *part = static_cast<Holder *>(static_cast<const cudnnBackendDescriptor_t *>(values)[i]);
      SHALE_DNN_REQUIRE(part, BAD_PARAM_NULL_POINTER, place(body.type, name) + " is null");
      SHALE_DNN_REQUIRE(part->body->finalized, BAD_PARAM_NOT_FINALIZED,
                        place(body.type, name) + " is not finalized");
      attribute.parts.push_back(part->body);
    }
  } else if (count > 0) {
    auto *bytes = static_cast<const char *>(values);
    attribute.bytes.assign(bytes, bytes + count * sizeOf(type));
  }
  body.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *count, void *values) {
  SHALE_DNN_ENTER("cudnnBackendGetAttribute");
  SHALE_DNN_REQUIRE(descriptor, BAD_PARAM_NULL_POINTER, "a null pointer");
  const Descriptor &body = of(descriptor);
  SHALE_DNN_REQUIRE(body.finalized, BAD_PARAM_NOT_FINALIZED,
                    place(body.type, name) + " is not finalized");
  bool known = false;
  cudnnStatus_t status = compute(body, name, requested, count, values, known);
  if (known)
    return status;
  const Known *entry = find(body.type, name);
  SHALE_DNN_REQUIRE(entry, NOT_SUPPORTED, "the stand-in does not know " + place(body.type, name));
  SHALE_DNN_REQUIRE(type == entry->type, BAD_PARAM_ATTRIBUTE_TYPE,
                    place(body.type, name) + " has another type");
  Attribute attribute;
  if (body.has(name))
    attribute = body.attributes.at(name);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    give(attribute.parts, requested, count, values);
    return CUDNN_STATUS_SUCCESS;
  }
  if (count)
    *count = attribute.count;
  if (values)
    std::memcpy(values, attribute.bytes.data(),
                std::min(requested, attribute.count) * sizeOf(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  SHALE_DNN_ENTER("cudnnBackendFinalize");
  SHALE_DNN_REQUIRE(descriptor, BAD_PARAM_NULL_POINTER, "a null pointer");
  Descriptor &body = of(descriptor);
  SHALE_DNN_REQUIRE(!body.finalized, BAD_PARAM, "the descriptor is finalized already");
  for (const Known &known : table)
    SHALE_DNN_REQUIRE(known.of != body.type || !known.required ||
                          (body.has(known.name) && body.attributes[known.name].count > 0),
                      BAD_PARAM, place(body.type, known.name) + " is not set");
  if (cudnnStatus_t failed = finish(body))
    return failed;
  body.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
