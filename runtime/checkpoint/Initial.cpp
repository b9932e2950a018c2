// Initial weights: by reference (file, offset, length), from --init's files, or random.
#include "runtime/checkpoint/Initial.h"
#include "runtime/checkpoint/Given.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Threads.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t chunkBytes = 1 << 19;
constexpr int64_t chunkElements = chunkBytes / 8; // of any type
constexpr int64_t blockSide = 256; // rows and columns of a block of a transposed parameter

/// The path of a file from the program's folder.
std::string fromProgram(const std::string &file) {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (n <= 0)
    return file;
  return parentOf(std::string(path, n)) + "/" + file;
}

} // namespace

InputFile openInitial(const ShaleInit &init) {
  std::string path = init.file ? init.file : "";
  std::string beside = fromProgram(baseName(path));
  if (!path.empty() && path[0] != '/')
    path = fromProgram(path);
  std::string first = path;
  if (!exists(path) && exists(beside))
    path = beside;
  if (!exists(path) && path == beside)
    fail(SHALE_EXIT_NO_INPUT,
         "the initial weights are not at '%s'; put the file there, or pass --init", path.c_str());
  if (!exists(path))
    fail(SHALE_EXIT_NO_INPUT,
         "the initial weights are neither at '%s' nor at '%s'; put the file at "
         "one of these places, or pass --init",
         first.c_str(), beside.c_str());
  InputFile file(path);
  if (init.file_size > 0 && file.size() != init.file_size)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld bytes, at compile time it had %lld: compile the program "
         "again for this model",
         path.c_str(), (long long)file.size(), (long long)init.file_size);
  return file;
}

void checkHash(const ShaleParameter &parameter, const InputFile &file) {
  const ShaleInit &init = parameter.init;
  if (init.hash == 0)
    return;
  int64_t parts = init.length > SHALE_HASHED_BYTES ? SHALE_HASHED_BLOCKS : 1;
  int64_t bytes = parts > 1 ? SHALE_HASHED_BYTES / SHALE_HASHED_BLOCKS : init.length;
  constexpr int64_t most = SHALE_HASHED_BYTES / SHALE_HASHED_BLOCKS; // read at once
  std::vector<char> piece(most);
  Checksum checksum;
  for (int64_t k = 0; k < parts; ++k) {
    int64_t begin = init.offset + k * (init.length - bytes) / (SHALE_HASHED_BLOCKS - 1);
    for (int64_t at = 0; at < bytes; at += most) {
      int64_t n = std::min(most, bytes - at);
      file.readAt(begin + at, piece.data(), n);
      checksum.add(piece.data(), n);
    }
  }
  if (static_cast<int64_t>(checksum.value()) != init.hash)
    fail(SHALE_EXIT_DATA,
         "'%s' has other values of '%s' than at compile time: compile the "
         "program again for this model, or start it from other weights with "
         "--init",
         file.path().c_str(), parameter.name);
}

namespace {
Dtype fileType(const ShaleParameter &parameter) { return static_cast<Dtype>(parameter.init.type); }

/// Location of the values of a whole parameter, all in one type.
struct Source {
  const InputFile *file;
  Dtype type;
  int64_t offset;
  bool transposed;
  const char *data = nullptr; // if not null, used instead of the file: values in the program itself
};

/// The source of the initial weights, as chosen by --init.
class Origin {
public:
  Origin(const ShaleProgram &program, const InitOptions &init) : program(program) {
    const std::string mark = "random:";
    if (init.source.compare(0, mark.size(), mark) == 0) {
      std::string digits = init.source.substr(mark.size());
      if (digits.empty() || digits.size() > 18 ||
          digits.find_first_not_of("0123456789") != std::string::npos)
        fail(SHALE_EXIT_USAGE,
             "--init random:SEED takes a whole number, not "
             "'%s'",
             digits.c_str());
      random = true;
      seed = std::strtoull(digits.c_str(), nullptr, 10);
      checkStatistics();
    } else if (!init.source.empty()) {
      given.emplace(program, init.source, init.renames);
    } else if (!init.renames.empty()) {
      fail(SHALE_EXIT_USAGE, "--init-map renames what --init names: give --init");
    }
  }

  bool draws(int p) const {
    const ShaleParameter &parameter = program.parameters[p];
    return random && !parameter.buffer && isWeight(program, p) &&
           parameter.init.kind != SHALE_INIT_FILL && !isInteger(static_cast<Dtype>(parameter.type));
  }
  bool fills(int p) const {
    return !(given && given->of(p).file) && program.parameters[p].init.kind == SHALE_INIT_FILL;
  }
  /// Whether the values are stored in the program itself.
  bool brings(int p) const {
    return !(given && given->of(p).file) && program.parameters[p].init.kind == SHALE_INIT_DATA;
  }
  /// Returns the source of any other parameter.
  Source of(int p) {
    const ShaleParameter &parameter = program.parameters[p];
    if (given && given->of(p).file) {
      const GivenWeights::Tensor &tensor = given->of(p);
      return {tensor.file, tensor.info.type, tensor.info.offset, false};
    }
    const ShaleInit &init = parameter.init;
    Dtype type = fileType(parameter);
    if (init.length != parameter.count * sizeOf(type))
      fail(SHALE_EXIT_DATA, "initial value of '%s' has %lld bytes, expected %lld", parameter.name,
           (long long)init.length, (long long)parameter.count * sizeOf(type));
    if (init.kind == SHALE_INIT_DATA)
      return {nullptr, type, 0, false, init.file};
    auto found = files.find(init.file ? init.file : "");
    if (found == files.end())
      found = files.emplace(init.file ? init.file : "", openInitial(init)).first;
    if (checked.insert(p).second)
      checkHash(parameter, found->second);
    return {&found->second, type, init.offset, init.transposed && parameter.rank == 2};
  }

  const ShaleProgram &program;
  std::optional<GivenWeights> given;
  bool random = false;
  uint64_t seed = 0;

private:
  void checkStatistics() {
    for (int p = 0; p < program.parameter_count; ++p)
      if (draws(p) && program.parameters[p].init.deviation < 0)
        fail(SHALE_EXIT_DATA,
             "--init random: the program has no mean and deviation of '%s', "
             "because its weights were missing at compile time or are not "
             "finite; pass a file or folder of weights to --init",
             program.parameters[p].name);
  }
  std::map<std::string, InputFile> files;
  std::set<int> checked; // parameters
};

uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Combines a seed and a parameter's name into one key.
uint64_t keyOf(uint64_t seed, const std::string &name) {
  Checksum checksum;
  checksum.add(name.data(), name.size());
  return mix(mix(seed + 0x9e3779b97f4a7c15ull) ^ checksum.value());
}

/// Returns a random number of approximately normal distribution, mean 0 and standard
/// deviation 1: the sum of twelve uniform numbers minus their mean. The sum is over
/// integers, so that every host gets the same bits; the C library's logarithm would not
/// guarantee that.
double drawn(uint64_t key, int64_t element) {
  constexpr int bits = 21;
  constexpr uint64_t mask = (uint64_t(1) << bits) - 1;
  uint64_t sum = 0;
  for (uint64_t word = 0; word < 4; ++word) {
    uint64_t x = mix(key + (4 * static_cast<uint64_t>(element) + word + 1) * 0x9e3779b97f4a7c15ull);
    sum += (x & mask) + (x >> bits & mask) + (x >> 2 * bits & mask);
  }
  return (static_cast<double>(sum) - 6.0 * mask) / (uint64_t(1) << bits);
}

class InitialReader {
public:
  InitialReader(const ShaleProgram &program, const InitOptions &init, State &state)
      : program(program), origin(program, init), state(state), buffer(chunkBytes),
        values(chunkElements * 8) {}

  void read(const Piece &piece) {
    const ShaleParameter &parameter = program.parameters[piece.parameter];
    const ShaleInit &init = parameter.init;
    int64_t size = sizeOf(piece.type);
    if (origin.draws(piece.parameter)) {
      uint64_t key = keyOf(origin.seed, parameter.name);
      return inChunks(piece, [&](int64_t begin, int64_t end) {
        onThreads([&](int64_t thread, int64_t threads) {
          int64_t low = begin + (end - begin) * thread / threads;
          int64_t high = begin + (end - begin) * (thread + 1) / threads;
          forRuns(piece.box, low, high, [&](int64_t local, int64_t global, int64_t count) {
            for (int64_t e = 0; e < count; ++e) {
              // Rounded to f32 first, so that a narrower copy is a rounding of the master weight.
              float value = static_cast<float>(init.mean + init.deviation * drawn(key, global + e));
              convert(Dtype::F32, &value, piece.type, values.data() + (local + e - begin) * size,
                      1);
            }
          });
        });
      });
    }
    if (origin.fills(piece.parameter))
      return inChunks(piece, [&](int64_t begin, int64_t end) {
        forRuns(piece.box, begin, end, [&](int64_t local, int64_t, int64_t count) {
          for (int64_t e = local; e < local + count; ++e)
            convert(Dtype::F64, &init.fill, piece.type, values.data() + (e - begin) * size, 1);
        });
      });
    Source source = origin.of(piece.parameter);
    int64_t element = sizeOf(source.type);
    if (source.transposed)
      return readTransposed(piece, parameter, source);
    inChunks(piece, [&](int64_t begin, int64_t end) {
      forRuns(piece.box, begin, end, [&](int64_t local, int64_t global, int64_t count) {
        const char *data = source.data ? source.data + global * element : buffer.data();
        if (!source.data)
          source.file->readAt(source.offset + global * element, buffer.data(), count * element);
        convert(source.type, data, piece.type, values.data() + (local - begin) * size, count);
      });
    });
  }

private:
  /// Fills a piece front to back: `make` puts the elements [begin, end) of its box, at most
  /// chunkElements, into `values`, in the piece's type, but for padding.
  template <typename Make> void inChunks(const Piece &piece, Make make) {
    for (int64_t begin = piece.begin; begin < piece.end; begin += chunkElements) {
      int64_t end = std::min(piece.end, begin + chunkElements);
      if (piece.box.isPadded())
        std::fill(values.begin(), values.end(), 0);
      make(begin, end);
      store(piece, begin, end);
    }
  }

  /// Writes `values` to the elements [begin, end) of the piece's box.
  void store(const Piece &piece, int64_t begin, int64_t end) {
    int64_t size = sizeOf(piece.type);
    state.write(piece.offset + (begin - piece.begin) * size, values.data(), (end - begin) * size);
  }

  /// Reads a piece of a transposed parameter block by block, if the block has elements of it. The
  /// file holds [columns, rows]: of each column of a block one contiguous range.
  void readTransposed(const Piece &piece, const ShaleParameter &parameter, const Source &source) {
    int64_t size = sizeOf(source.type), rows = parameter.dims[0], columns = parameter.dims[1];
    // Of a padded box the row after the last one, perhaps, which it then has nothing of.
    int64_t first = piece.box.globalOf(piece.begin), last = piece.box.globalOf(piece.end - 1);
    int64_t firstRow = first / columns, lastRow = std::min(last / columns + 1, rows);
    for (int64_t top = firstRow; top < lastRow; top += blockSide)
      for (int64_t left = 0; left < columns; left += blockSide) {
        int64_t height = std::min(blockSide, lastRow - top);
        int64_t width = std::min(blockSide, columns - left);
        // The piece's elements in a row of the block.
        auto within = [&](int64_t r) {
          int64_t row = (top + r) * columns + left;
          return std::pair(std::max(piece.begin, piece.box.below(row)),
                           std::min(piece.end, piece.box.below(row + width)));
        };
        bool reads = false;
        for (int64_t r = 0; r < height && !reads; ++r)
          reads = within(r).first < within(r).second;
        for (int64_t c = 0; c < width && reads; ++c)
          source.file->readAt(source.offset + ((left + c) * rows + top) * size,
                              buffer.data() + c * height * size, height * size);
        for (int64_t r = 0; r < height && reads; ++r) {
          auto [begin, end] = within(r);
          int64_t row = (top + r) * columns + left; // the first element of the block's row
          forRuns(piece.box, begin, end, [&](int64_t local, int64_t global, int64_t count) {
            for (int64_t e = 0; e < count; ++e)
              convert(source.type, buffer.data() + ((global + e - row) * height + r) * size,
                      piece.type, values.data() + e * sizeOf(piece.type), 1);
            store(piece, local, local + count);
          });
        }
      }
  }

  const ShaleProgram &program;
  Origin origin;
  State &state;
  std::vector<char> buffer; // of a file's bytes
  std::vector<char> values; // in the type of the state
};

} // namespace

void readInitial(const ShaleProgram &program, const InitOptions &init, int rank, State &state) {
  InitialReader reader(program, init, state);
  for (const Piece &piece : localPieces(program, rank))
    if (piece.role == SHALE_ROLE_PARAM || piece.role == SHALE_ROLE_LOSS_SCALE)
      reader.read(piece);
}

std::string checkInitial(const ShaleProgram &program, const InitOptions &init) {
  Origin origin(program, init);
  for (int p = 0; p < program.parameter_count; ++p)
    if (!origin.draws(p) && !origin.fills(p) && !origin.brings(p))
      origin.of(p);
  // Tensors that are copied from the model's file to the trained weights, if the file exists.
  for (int k = 0; k < program.kept_count && init.source.empty(); ++k) {
    const ShaleParameter &kept = program.kept[k];
    if (kept.type >= 0 && kept.init.file && exists(kept.init.file))
      checkHash(kept, openInitial(kept.init));
  }
  if (origin.random)
    return format("initial weights: drawn with seed %llu", (unsigned long long)origin.seed);
  if (!origin.given)
    return "";
  origin.given->checkTied();
  std::string text = "initial weights: from " + init.source;
  if (!origin.given->note().empty())
    text += "; " + origin.given->note();
  const std::vector<std::string> &kept = origin.given->missingBuffers();
  for (size_t i = 0; i < kept.size(); ++i)
    text += (i ? ", " : "; not there, so of the program's own: buffers ") + kept[i];
  return text;
}

} // namespace shale::rt
