// Chooses the algorithms of matrix products before the first step.
#include "runtime/program/loop/ProductChooser.h"
#include "runtime/core/Error.h"
#include "runtime/device/ProductFile.h"
#include "runtime/program/launch/Signals.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace shale::rt {

namespace {

// Time on the device after which the remaining products take the library's first proposal.
constexpr double kMostSeconds = 10;

ProductFile productFile(const Options &options) {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  // If /proc is not mounted, the file is in --out.
  return ProductFile(error ? options.out + "/program" : program.string(), options.out);
}

/// Sends a text of rank 0 to all ranks.
std::string share(Peers &peers, int rank, int worldSize, std::string text) {
  int64_t bytes = static_cast<int64_t>(text.size());
  if (rank != 0) {
    peers.receive(0, &bytes, sizeof(bytes));
    text.resize(bytes);
    peers.receive(0, text.data(), bytes);
    return text;
  }
  for (int to = 1; to < worldSize; ++to) {
    peers.send(to, &bytes, sizeof(bytes));
    peers.send(to, text.data(), bytes);
  }
  return text;
}

/// Uses the choices for these products. Removes the choices that the device cannot run, and warns
/// once if there are any; `instead` says what happens to them.
void useChoices(ProductTuner &tuner, const std::vector<Product> &products, Choices &choices,
                const char *instead) {
  std::string refused;
  int64_t count = 0;
  for (const Product &product : products) {
    auto found = choices.find(tuner.keyOf(product));
    if (found == choices.end() || tuner.use(product, found->second.algorithm))
      continue;
    refused = found->first;
    choices.erase(found);
    ++count;
  }
  if (count > 0)
    warn(
        "this GPU cannot run the algorithms chosen for %lld of %zu matrix products, such as %s: %s",
        (long long)count, products.size(), refused.c_str(), instead);
}

/// Says what was timed and where it is kept.
void tell(const Choices &choices, const std::set<std::string> &timed, const std::string &path,
          bool beside) {
  int64_t faster = 0, left = 0;
  for (const std::string &key : timed) {
    auto found = choices.find(key);
    bool isTimed = found != choices.end() && found->second.first > 0;
    left += !isTimed;
    faster += isTimed && found->second.best < found->second.first;
  }
  std::string text = format(
      "timed %lld of %zu matrix products: another algorithm than the first is faster for %lld",
      (long long)(int64_t(timed.size()) - left), timed.size(), (long long)faster);
  if (!path.empty())
    text += format("; kept in '%s'", path.c_str());
  if (!path.empty() && !beside)
    text += ", because it cannot be written beside the program";
  printf("%s\n", text.c_str());
  fflush(stdout);
}

/// Returns products with different keys. Those that compute most come first:
/// if the time ends, small ones are left. A product comes before the same with an epilogue.
std::vector<Product> distinctOf(const std::vector<Product> &all, const ProductTuner &tuner) {
  std::vector<Product> distinct;
  std::map<std::string, double> work; // of all products of a key
  for (const Product &p : all) {
    auto [place, isNew] = work.try_emplace(tuner.keyOf(p), 0);
    place->second += double(p.batch) * p.m * p.n * p.k;
    if (isNew)
      distinct.push_back(p);
  }
  std::stable_sort(distinct.begin(), distinct.end(), [&](const Product &x, const Product &y) {
    return work.at(tuner.keyOf(x)) > work.at(tuner.keyOf(y));
  });
  return distinct;
}

} // namespace

/// Times products on rank 0, while the others wait for it one product at a time: none of them waits
/// for long. Returns the exit code of a signal, or 0.
int ProductChooser::timeProducts(ProductTuner &tuner, const std::vector<Product> &products,
                                 Choices &choices) {
  if (!products.empty())
    tuner.begin(loaded.arena().data(), loaded.arena().size());
  int said = 0;
  for (size_t next = 0;; ++next) {
    int more = next < products.size() ? 1 : 0; // an exit code is larger
    said = static_cast<int>(setup.peers().agree(std::max(requestedExit(), more)));
    if (said != 1)
      break;
    if (more == 0)
      continue; // another rank has products left
    progress.work("timing products", int64_t(next), int64_t(products.size()));
    Choice choice = tuner.choose(products[next], tuner.seconds() < kMostSeconds);
    // A product is timed with its epilogue after it was chosen how to compute it without.
    tuner.use(products[next], choice.algorithm);
    choices[tuner.keyOf(products[next])] = choice;
  }
  progress.clear();
  if (!products.empty())
    tuner.end();
  if (said != 0 && setup.isFirst())
    printf("stopped by a signal before the first step: matrix products were not all timed\n");
  return said;
}

int ProductChooser::choose(bool trains) {
  ProductTuner *tuner = loaded.rank().device->tuner();
  if (!tuner || !setup.options.tuneProducts)
    return 0;
  std::vector<Product> products = distinctOf(loaded.products(), *tuner), left;
  ProductFile file = productFile(setup.options);
  Choices choices;
  std::set<std::string> timed;
  if (setup.isFirst()) {
    Choices kept = file.load(tuner->machine());
    useChoices(*tuner, products, kept, "they are chosen again");
    for (const Product &product : products) {
      std::string key = tuner->keyOf(product);
      if (auto found = kept.find(key); found != kept.end()) {
        choices.insert(*found);
      } else if (trains) {
        left.push_back(product);
        timed.insert(key);
      }
    }
  }
  if (int code = timeProducts(*tuner, left, choices))
    return code;
  std::string text = share(setup.peers(), setup.rank(), setup.rendezvous.worldSize,
                           productText("rank 0", choices));
  choices = parseProducts(text, "rank 0");
  useChoices(*tuner, products, choices, "they take the first algorithm");
  if (!timed.empty()) {
    std::string path = file.store(tuner->machine(), choices);
    tell(choices, timed, path, path == file.first());
  }
  return 0;
}

} // namespace shale::rt
