//===- Remarks.cpp - Remarks about what the compiler decided --------------===//
#include "lib/Support/Remarks.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;

void shale::emitDecision(Location location, StringRef category, const Twine &text) {
  if (location->getContext()->getRemarkEngine())
    remark::analysis(location, remark::RemarkOpts::name(category).category(category)) << text.str();
}

void shale::emitNote(Location location, const Twine &text) {
  Diagnostic note(location, DiagnosticSeverity::Note);
  note << text;
  location.getContext()->getDiagEngine().emit(std::move(note));
}

namespace {
struct Diagnostics : remark::detail::MLIRRemarkStreamerBase {
  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    InFlightDiagnostic diagnostic = emitRemark(remark.getLocation());
    for (const remark::detail::Remark::Arg &arg : remark.getArgs())
      diagnostic << arg.val;
    diagnostic << " [" << remark.getCategoryName() << "]";
  }
};
} // namespace

llvm::Error shale::showRemarks(MLIRContext &context, StringRef filter) {
  std::string message;
  std::string all = filter.empty() ? ".*" : filter.str();
  remark::RemarkCategories categories{std::nullopt, all, all, all, all};
  if (!llvm::Regex(all).isValid(message))
    return llvm::createStringError("'" + filter + "' is not a regular expression: " + message);
  if (failed(remark::enableOptimizationRemarks(context, std::make_unique<Diagnostics>(),
                                               std::make_unique<remark::RemarkEmittingPolicyAll>(),
                                               categories)))
    return llvm::createStringError("remarks cannot be enabled");
  return llvm::Error::success();
}
