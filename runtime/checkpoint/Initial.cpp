// Initial weights by reference (file, offset, length).
#include "runtime/checkpoint/Initial.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <algorithm>
#include <climits>
#include <map>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t chunkBytes = 1 << 20;

std::string besideProgram(const std::string &file) {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (n <= 0)
    return file;
  return parentOf(std::string(path, n)) + "/" + baseName(file);
}

InputFile openWeights(const ShaleInit &init) {
  std::string path = init.file ? init.file : "";
  std::string beside = besideProgram(path);
  if (!exists(path) && exists(beside))
    path = beside;
  if (!exists(path))
    fail(SHALE_EXIT_NO_INPUT,
         "the initial weights are neither at '%s' nor at '%s'; put the file at "
         "one of these places",
         init.file ? init.file : "", beside.c_str());
  InputFile file(path);
  if (init.file_size > 0 && file.size() != init.file_size)
    fail(
        SHALE_EXIT_DATA,
        "'%s' has %lld bytes, at compile time it had %lld: compile the program "
        "again for this model",
        path.c_str(), (long long)file.size(), (long long)init.file_size);
  return file;
}

Dtype fileType(const ShaleParameter &parameter) {
  Dtype type = static_cast<Dtype>(parameter.type);
  bool half = type == Dtype::BF16 || type == Dtype::F16;
  return half && parameter.init.length == 4 * parameter.count ? Dtype::F32
                                                              : type;
}

class Reader {
public:
  Reader(const ShaleProgram &program) : program(program) {
    buffer.resize(chunkBytes);
  }

  void read(const Piece &piece, char *state) {
    const ShaleParameter &parameter = program.parameters[piece.parameter];
    const ShaleInit &init = parameter.init;
    Dtype type = static_cast<Dtype>(parameter.type);
    char *target = state + piece.offset;
    if (init.kind == SHALE_INIT_FILL) {
      int64_t size = sizeOf(piece.type);
      for (int64_t i = 0; i < piece.end - piece.begin; ++i)
        convert(Dtype::F64, &init.fill, piece.type, target + i * size, 1);
      return;
    }
    // A parameter of a half type may have a file of f32.
    type = fileType(parameter);
    if (init.length != parameter.count * sizeOf(type))
      fail(SHALE_EXIT_DATA,
           "initial value of '%s' has %lld bytes, expected %lld",
           parameter.name, (long long)init.length,
           (long long)(parameter.count * sizeOf(type)));
    if (init.kind == SHALE_INIT_DATA) {
      convert(type, init.file + piece.begin * sizeOf(type), piece.type, target, piece.end - piece.begin);
      return;
    }
    const InputFile &file = fileOf(init);
    if (init.transposed && parameter.rank == 2)
      readTransposed(piece, parameter, file, target);
    else
      readPlain(piece, parameter, file, target);
  }

private:
  const InputFile &fileOf(const ShaleInit &init) {
    auto found = files.find(init.file);
    if (found == files.end())
      found = files.emplace(init.file, openWeights(init)).first;
    return found->second;
  }

  void readPlain(const Piece &piece, const ShaleParameter &parameter,
                 const InputFile &file, char *target) {
    Dtype type = fileType(parameter);
    int64_t step = chunkBytes / sizeOf(type);
    for (int64_t at = piece.begin; at < piece.end; at += step) {
      int64_t n = std::min(step, piece.end - at);
      file.readAt(parameter.init.offset + at * sizeOf(type), buffer.data(),
                  n * sizeOf(type));
      convert(type, buffer.data(), piece.type,
              target + (at - piece.begin) * sizeOf(piece.type), n);
    }
  }

  /// The file holds [columns, rows]: for each column one run of it covers the
  /// rows that the piece touches. Tall pieces are taken in strips of rows.
  void readTransposed(const Piece &piece, const ShaleParameter &parameter,
                      const InputFile &file, char *target) {
    Dtype type = fileType(parameter);
    int64_t size = sizeOf(type), rows = parameter.dims[0],
            columns = parameter.dims[1];
    int64_t firstRow = piece.begin / columns;
    int64_t lastRow = (piece.end - 1) / columns + 1;
    int64_t strip = chunkBytes / size;
    for (int64_t top = firstRow; top < lastRow; top += strip) {
      int64_t height = std::min(strip, lastRow - top);
      for (int64_t c = 0; c < columns; ++c) {
        file.readAt(parameter.init.offset + (c * rows + top) * size,
                    buffer.data(), height * size);
        for (int64_t r = 0; r < height; ++r) {
          int64_t element = (top + r) * columns + c;
          if (element >= piece.begin && element < piece.end)
            convert(type, buffer.data() + r * size, piece.type,
                    target + (element - piece.begin) * sizeOf(piece.type), 1);
        }
      }
    }
  }

  const ShaleProgram &program;
  std::map<std::string, InputFile> files;
  std::vector<char> buffer;
};
} // namespace

void readInitial(const ShaleProgram &program, int rank, char *state) {
  Reader reader(program);
  for (const Piece &piece : localPieces(program, rank))
    if (piece.role == SHALE_ROLE_PARAM || piece.role == SHALE_ROLE_LOSS_SCALE)
      reader.read(piece, state);
}

void checkInitialFiles(const ShaleProgram &program) {
  std::map<std::string, bool> seen;
  for (int p = 0; p < program.parameter_count; ++p) {
    const ShaleInit &init = program.parameters[p].init;
    if (init.kind == SHALE_INIT_FILE && !seen[init.file ? init.file : ""]) {
      seen[init.file ? init.file : ""] = true;
      openWeights(init);
    }
  }
}

} // namespace shale::rt
