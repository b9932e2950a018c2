// Exchanges between the processes of a run, outside of compiled code: barrier, agreement,
// gathering of texts and of weights. They work on memory of the process.
#ifndef SHALE_RUNTIME_COMM_PEERS_H
#define SHALE_RUNTIME_COMM_PEERS_H

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

/// Every rank calls agree(), gather() and barrier() in the same order, and each send() has a
/// receive() of the same size on the other rank. Failure throws with exit code 76. A text is at
/// most 1 GiB long. A rank exchanges with rank 0 and with the ranks along its axes.
class Peers {
public:
  virtual ~Peers() = default;
  /// Returns the largest value over all ranks.
  virtual int64_t agree(int64_t value) = 0;
  /// As agree(), in the same messages. Rank 0 also gets the number of every rank, in rank order; on
  /// other ranks `all` is empty.
  virtual int64_t agreeAndTell(int64_t value, double, std::vector<double> &all) {
    all.clear();
    return agree(value);
  }
  /// Returns every rank's text on rank 0, in rank order; empty on other ranks.
  virtual std::vector<std::string> gather(const std::string &text) = 0;
  virtual void send(int to, const void *data, int64_t bytes) = 0;
  virtual void receive(int from, void *data, int64_t bytes) = 0;
  void barrier() { agree(0); }
  /// Returns how messages name a rank: "rank 2 (host node1, pid 4711)".
  virtual std::string nameOf(int rank) const = 0;
  /// Tells the other ranks that this one ends in order. No other function is called after it.
  virtual void leave() {}
  /// Sends `ranks` (without this one) a message that this rank is stuck, and returns the ranks that
  /// do not send the same message within `seconds`. May be called once, from any thread; all other
  /// functions fail afterwards.
  virtual std::vector<int> findSilent(const std::vector<int> &ranks, double seconds) = 0;
};

} // namespace shale::rt

#endif
