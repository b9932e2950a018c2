//===- PolicyOption.h - Policies as options of passes ---------------------===//
//
// Makes the types of Policies.h and MeshSpec types of `Option<...>` in Passes.td.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_SUPPORT_POLICYOPTION_H
#define SHALE_SUPPORT_POLICYOPTION_H

#include "dialects/nn/Optimizers.h"
#include "lib/Support/MeshSpec.h"
#include "lib/Support/Policies.h"
#include "llvm/Support/CommandLine.h"

namespace shale {

/// Parses and prints an option with parseText() and textOf().
template <typename T> struct TextParser : llvm::cl::basic_parser<T> {
  using llvm::cl::basic_parser<T>::basic_parser;
  bool parse(llvm::cl::Option &option, llvm::StringRef, llvm::StringRef text, T &value) {
    std::string wrong = parseText(text, value);
    return !wrong.empty() && option.error(wrong);
  }
  static void print(llvm::raw_ostream &os, const T &value) { os << textOf(value); }
  void printOptionDiff(const llvm::cl::Option &option, const T &, const llvm::cl::OptionValue<T> &,
                       size_t width) const {
    this->printOptionNoValue(option, width);
  }
};

} // namespace shale

namespace llvm::cl {
#define SHALE_OPTION_TYPE(TYPE)                                                                    \
  template <> class parser<TYPE> : public ::shale::TextParser<TYPE> {                              \
    using TextParser::TextParser;                                                                  \
  };
SHALE_OPTION_TYPE(::shale::MeshSpec)
SHALE_OPTION_TYPE(::shale::Sharding)
SHALE_OPTION_TYPE(::shale::FloatKind)
SHALE_OPTION_TYPE(::shale::MasterKind)
SHALE_OPTION_TYPE(::shale::RoundingKind)
SHALE_OPTION_TYPE(::shale::MomentKind)
SHALE_OPTION_TYPE(::shale::MatmulKind)
SHALE_OPTION_TYPE(::shale::WireTypes)
SHALE_OPTION_TYPE(::shale::AttentionKind)
SHALE_OPTION_TYPE(::shale::ReductionOrder)
SHALE_OPTION_TYPE(::shale::BucketSize)
SHALE_OPTION_TYPE(const ::shale::nn::Optimizer *)
SHALE_OPTION_TYPE(::shale::UnitPolicy)
SHALE_OPTION_TYPE(::shale::RecomputePolicy)
SHALE_OPTION_TYPE(::shale::OffloadPolicy)
SHALE_OPTION_TYPE(::shale::LossChunk)
SHALE_OPTION_TYPE(::shale::TensorPlan)
SHALE_OPTION_TYPE(::shale::UpdateScales)
SHALE_OPTION_TYPE(::shale::OptimizerChoices)
SHALE_OPTION_TYPE(::shale::SequenceParallel)
#undef SHALE_OPTION_TYPE
} // namespace llvm::cl

#endif // SHALE_SUPPORT_POLICYOPTION_H
