// Fuzzes manifest.json of a checkpoint, and the shares of it that ranks send each other: the input
// is the manifest's body, whose checksum is made right, in a folder with the files of the seeds.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Verify.h"
#include "runtime/core/Checksum.h"
#include "runtime/core/Json.h"
#include "test/fuzz/Runtime.h"

using namespace shale;
using namespace shale::fuzz;

/// Returns manifest.json of a body, whatever that is; the body itself if it is not JSON.
static std::string manifestOf(const std::string &body, bool &parses) {
  using nlohmann::json;
  json tree = json::parse(body, nullptr, false);
  parses = !tree.is_discarded();
  if (!parses)
    return body;
  std::string text = tree.dump(-1, ' ', false, json::error_handler_t::replace);
  json whole = {{"body", tree},
                {"checksum", rt::format("%016llx", (unsigned long long)rt::checksumOf(text))}};
  return whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  static const bool written = [] {
    for (const char *name : {"rank00000.safetensors", "rank00001.safetensors"})
      folder.write(name, std::string(96, 'w'));
    return true;
  }();
  (void)written;
  std::string body(reinterpret_cast<const char *>(data), size);
  bool parses = false;
  folder.write("manifest.json", manifestOf(body, parses));
  try { // the same body as a share: rank 0 reports any exception as the fault of the rank
    rt::Share share = rt::unpackShare(body);
    (void)rt::packShare(share);
  } catch (const std::exception &) {
  }
  (void)rt::checkFolder(folder.path());
  return check(parses, [&] {
    rt::Manifest manifest = rt::readManifest(folder.path());
    for (const rt::StoredPiece &piece : manifest.pieces)
      if (piece.offset < 0 || piece.bytes() < 0 || piece.offset + piece.bytes() > 96 ||
          int64_t(piece.sums.size()) !=
              piece.chunks.of(piece.end - piece.begin) * piece.chunks.parts)
        std::abort();
  });
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  std::string made = mutateJson(std::string(reinterpret_cast<char *>(data), size), random);
  if (made.size() > most)
    return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
