// The file that keeps the algorithms of a program's products, so that a program that is started
// again has the same bits and need not time them again.
//
// {"body": {"format": 2, "machine": "..", "products": [{"product": "..", "algorithm": "..",
// "first_us": .., "us": ..}, ..]}, "xxh3": XXH3 of the body's text}.
#ifndef SHALE_RUNTIME_DEVICE_PRODUCTFILE_H
#define SHALE_RUNTIME_DEVICE_PRODUCTFILE_H

#include "runtime/device/Tuner.h"

#include <string>
#include <vector>

namespace shale::rt {

/// Returns the text of the file for these choices on a machine (ProductTuner::machine).
std::string productText(const std::string &machine, const Choices &choices);

/// Reads what productText() wrote for the same machine. Throws Error with exit code 65 and a
/// message that completes "FILE .."; no content makes it fail in another way.
Choices parseProducts(const std::string &text, const std::string &machine);

/// The file "PROGRAM.products.json" beside the program, or in another folder if that one is
/// read-only.
class ProductFile {
public:
  /// `program` is the path of the executable, `otherwise` a folder.
  ProductFile(const std::string &program, const std::string &otherwise);

  /// Returns the choices of the first of both files that can be used; none if there is no such
  /// file. Warns about a file that is damaged, or that is of another machine.
  Choices load(const std::string &machine) const;

  /// Replaces the file. Returns its path, or "" with a warning if neither folder is writable.
  std::string store(const std::string &machine, const Choices &choices) const;

  /// The path beside the program.
  const std::string &first() const { return paths.front(); }

private:
  std::vector<std::string> paths;
};

} // namespace shale::rt

#endif
