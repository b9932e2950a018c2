#include "runtime/data/Foreign.h"

#include <algorithm>
#include <string_view>

namespace shale::rt {

const char kNpyFile[] = "a .npy file";

namespace {

using std::string_view_literals::operator""sv;

constexpr char kUnpack[] = "unpack it";
constexpr char kTokenize[] = "tokenize its text: the program reads .bin, .npy and .safetensors";
constexpr char kTable[] = "convert it to .npy or .safetensors";
constexpr char kConvert[] =
    "convert its weights with safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
    "'x.safetensors'), and pass them to --init";

struct Magic {
  std::string_view bytes;
  size_t at;
  ForeignKind kind;
};

const Magic kMagics[] = {
    {"PAR1"sv, 0, {"a Parquet file", kTokenize}},
    {"ARROW1"sv, 0, {"an Arrow file", kTokenize}},
    {"\x89HDF\r\n\x1a\n"sv, 0, {"an HDF5 file", kTable}},
    {"\x93NUMPY"sv, 0, {kNpyFile, "give it the extension .npy"}},
    {"\xfd"
     "7zXZ\0"sv,
     0,
     {"an xz file", kUnpack}},
    {"\x28\xb5\x2f\xfd"sv, 0, {"a zstd file", kUnpack}},
    {"\x37\x7a\xbc\xaf\x27\x1c"sv, 0, {"a 7z file", kUnpack}},
    {"1AY&SY"sv, 4, {"a bzip2 file", kUnpack}},
    {"ustar"sv, 257, {"a tar file", kUnpack}},
    {"SQLite format 3\0"sv, 0, {"an SQLite database", kTokenize}},
    {"\x89PNG\r\n\x1a\n"sv, 0, {"an image", kTable}},
    {"\xff\xd8\xff"sv, 0, {"an image", kTable}},
    {"%PDF-"sv, 0, {"a PDF document", kTokenize}},
    {"\x7f"
     "ELF"sv,
     0,
     {"a program", "pass a file of tokens or batches"}},
    {"GGUF"sv, 0, {"a GGUF model", "convert its weights to .safetensors, and pass them to --init"}},
    // A pickle of protocol 2 whose first object is the magic number of torch.save.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
     0,
     {"a PyTorch checkpoint", kConvert}},
    {"\x80\x04\x95"sv, 0, {"a pickle", kTable}},
    {"\x80\x05\x95"sv, 0, {"a pickle", kTable}},
};

/// A stream of Arrow, which Hugging Face's data sets have: a mark, the size of the first message,
/// and the place of its table.
bool isArrowStream(std::string_view text) {
  return text.size() > 16 && text.substr(0, 4) == "\xff\xff\xff\xff"sv && (text[4] & 7) == 0 &&
         text.substr(6, 6) == "\0\0\x10\0\0\0"sv;
}

/// A pickle of a protocol without frames: the protocol, an object's first opcode, and at the end
/// the opcode that stops.
bool isOldPickle(std::string_view text, char last) {
  return text.size() > 4 && text[0] == '\x80' && (text[1] == 2 || text[1] == 3) && last == '.' &&
         std::string_view("]}()cX").find(text[2]) != std::string_view::npos;
}

bool isGzip(std::string_view text) { // deflate is the only method; three flag bits are reserved
  return text.substr(0, 3) == "\x1f\x8b\x08"sv && text.size() > 3 && (text[3] & 0xe0) == 0;
}

/// The IR version, then the producer's name, its length and letters of it.
bool isOnnx(std::string_view text) {
  if (text.size() < 8 || text[0] != 0x08 || text[1] < 3 || text[1] > 30 || text[2] != 0x12)
    return false;
  size_t length = static_cast<unsigned char>(text[3]);
  std::string_view name = text.substr(4, std::min<size_t>(length, 4));
  return length > 0 && length < 64 &&
         std::all_of(
             name.begin(), name.end(),
             [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

} // namespace

ForeignKind foreignKind(const InputFile &file) {
  std::string bytes(std::min<int64_t>(file.size(), 512), '\0');
  file.readAt(0, bytes.data(), bytes.size());
  std::string_view text = bytes;
  for (const Magic &magic : kMagics)
    if (text.size() >= magic.at + magic.bytes.size() &&
        text.substr(magic.at, magic.bytes.size()) == magic.bytes)
      return magic.kind;
  if (text.substr(0, 4) == "PK\x03\x04"sv) {
    if (text.find("/data.pkl"sv) != text.npos)
      return {"a PyTorch checkpoint", kConvert};
    if (text.find(".npy"sv) != text.npos)
      return {"an .npz file", "unpack it, and pass one .npy file"};
    return {"a zip file", kUnpack};
  }
  char last = 0;
  if (file.size() > 0)
    file.readAt(file.size() - 1, &last, 1);
  if (isOldPickle(text, last))
    return {"a pickle", kTable};
  if (isArrowStream(text))
    return {"an Arrow file", kTokenize};
  if (isGzip(text))
    return {"a gzip file", kUnpack};
  if (isOnnx(text))
    return {"an ONNX model", "compile it with shalec; --init takes weights as .safetensors"};
  // A safetensors file under another name: the length of the header, then the header.
  if (text.size() > 10 && text.substr(6, 4) == "\0\0{\""sv)
    return {"a .safetensors file", "give it the extension .safetensors"};
  return {};
}

} // namespace shale::rt
