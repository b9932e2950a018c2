// What a signal means: a request to end, the same request again, or an end at once.
#include "runtime/program/launch/Requests.h"

namespace shale::rt {

Meaning Requests::take(const Received &received) {
  if (received.sender == Sender::Launcher)
    return Meaning::EndNow;
  bool isKey = received.sender == Sender::Terminal && received.signal == SIGINT;
  bool &known = received.sender == Sender::Parent ? fromParent : fromElsewhere;
  bool isAgain = known, isSecondKey = isKey && byKey;
  known = true;
  byKey = byKey || isKey;
  if (signal == 0) {
    signal = received.signal;
    since = received.at;
    return Meaning::Request;
  }
  if (isSecondKey)
    return Meaning::EndNow;
  bool isSoon = received.at - since < kSame;
  return isSoon || (!isAgain && received.signal == signal) ? Meaning::Same : Meaning::EndNow;
}

Sender senderOf(const siginfo_t &info, pid_t parent) {
  if (info.si_code == SI_KERNEL)
    return Sender::Terminal;
  if (info.si_pid != parent)
    return Sender::Other;
  bool isEnd = info.si_code == SI_QUEUE && info.si_value.sival_int == kEndNow;
  return isEnd ? Sender::Launcher : Sender::Parent;
}

} // namespace shale::rt
