//===- Machines.h - Compute and bandwidth rates of machines ---------------===//
#ifndef SHALE_TARGET_MACHINES_H
#define SHALE_TARGET_MACHINES_H

#include "lib/Support/ToolError.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace shale {

/// Rates per second and latencies in seconds of one rank's machine, for ranking plans
/// (lib/Analysis/TimeModel.h). They come from a machine file: MachineFile.cpp has the keys.
struct Rates {
  std::string name;
  std::string source; ///< of the figures

  double flops = 0;     ///< f32 operations of matmuls
  double flopsTf32 = 0; ///< the same with operands rounded to TF32 (--allow-tf32)
  double flops16 = 0;   ///< bf16 and f16 operations of matmuls
  /// The same of 8-bit floats; 0: the machine has none, and they take as long as those of f32.
  double flops8 = 0;
  double attention = 0; ///< bf16 and f16 operations of the matmuls in a library's attention
  /// Exponentials of scores there, a query and key each; not beside matmuls.
  double scores = std::numeric_limits<double>::infinity();
  double memory = 0;      ///< bytes read or written by kernels
  double hostMemory = 0;  ///< bytes of host memory read or written by code on the host, per rank
  double host = 0;        ///< bytes copied between device and host
  double launch = 0;      ///< latency of a kernel or matmul
  bool oneMemory = false; ///< whether host and device share one RAM
  int64_t capacity = 0; ///< bytes of device memory, as the vendor's tools print; 0 if that differs
  int64_t reserved = 0; ///< bytes of these that the driver gives to no process
  /// Cost of a byte of 16-bit floats in a kernel, in bytes of f32. It is 2 where the kernel
  /// converts each element to f32: the conversion takes the time that the smaller type saves.
  double bytes16 = 1;

  int64_t nodeRanks = 0;     ///< ranks per node; 0: all ranks are in one
  double link = 0;           ///< bytes from a rank to ranks of its own node
  double collective = 0;     ///< latency before a collective's first byte
  double network = 0;        ///< bytes from a rank to ranks of other nodes
  double networkLatency = 0; ///< latency that each further node adds to a collective
};

/// What the ranks along one axis of a mesh communicate over.
struct AxisLink {
  int64_t nodes = 1;  ///< the most nodes that ranks of one group are in
  double rate = 0;    ///< bytes per second that a rank sends
  double latency = 0; ///< seconds before a collective's first byte
  bool leavesNode() const { return nodes > 1; }
};

/// Returns the link of an axis of `size` ranks, of which `stride` is the distance in a mesh of
/// `ranks`: the product of the sizes of the axes after it. Ranks are numbered node by node, so the
/// last axis is innermost. A group that is in several nodes sends over the network as a ring does:
/// its bytes leave a node through the ports of all ranks that the group has there.
AxisLink linkOf(const Rates &rates, int64_t ranks, int64_t stride, int64_t size);

/// Parses the text of a machine file, a flat TOML file (docs/planning.md, "Machine files"). `path`
/// begins messages. Returns nothing with an error that names line, key and remedy, and
/// SHALE_EXIT_DATA.
std::optional<Rates> parseMachine(llvm::StringRef text, llvm::StringRef path, ToolError &error);
/// Reads a machine file: parseMachine(), or the error of a file that cannot be opened.
std::optional<Rates> readMachine(llvm::StringRef path, ToolError &error);

/// Returns all machines that targets have registered (lib/Target/Target.h), in that order.
std::vector<const Rates *> knownRates();
/// Returns the rates of one of them by name, or null.
const Rates *ratesNamed(llvm::StringRef name);

} // namespace shale

#endif // SHALE_TARGET_MACHINES_H
