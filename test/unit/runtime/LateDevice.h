// The host as a device that does nothing until the process waits for it. Copies then read what
// their source holds at that time: a slot that is filled too early gives wrong results.
#ifndef SHALE_TEST_LATEDEVICE_H
#define SHALE_TEST_LATEDEVICE_H

#include "runtime/device/host/HostDevice.h"

#include <deque>

class LateDevice : public shale::rt::HostDevice {
public:
  using HostDevice::HostDevice;

  bool sharesMemory() const override { return false; }
  bool runsAhead() const override { return true; }
  void read(void *target, const char *source, int64_t bytes) override {
    finish();
    HostDevice::read(target, source, bytes);
  }
  void write(char *target, const void *source, int64_t bytes) override {
    finish();
    HostDevice::write(target, source, bytes);
  }
  void copy(void *target, const void *source, int64_t bytes) override {
    later([=] { HostDevice::copy(target, source, bytes); });
  }
  void copyAcross(void *target, const void *source, int64_t bytes) override {
    later([=] { HostDevice::copyAcross(target, source, bytes); });
  }
  void call(ShaleFunction, bool observed, const std::function<void()> &body) override {
    later(body);
    if (observed)
      finish();
  }
  void finish() override {
    if (!running) // else all work before this is done
      runTo(enqueued());
  }
  std::unique_ptr<shale::rt::Mark> makeMark() override {
    struct Place final : shale::rt::Mark {
      explicit Place(LateDevice &device) : device(device) {}
      void set() override { place = device.enqueued(); }
      void wait() override { device.runTo(place); }
      LateDevice &device;
      int64_t place = 0;
    };
    return std::make_unique<Place>(*this);
  }

  int64_t enqueued() const { return done + static_cast<int64_t>(work.size()); }
  /// Runs the first `count` pieces of work of all that were enqueued.
  virtual void runTo(int64_t count) {
    while (done < count) {
      std::function<void()> next = std::move(work.front());
      work.pop_front();
      ++done;
      running = true;
      next();
      running = false;
    }
  }

private:
  /// What a running function does is part of it.
  void later(std::function<void()> body) {
    if (running)
      return body();
    work.push_back(std::move(body));
  }

  std::deque<std::function<void()>> work;
  int64_t done = 0;
  bool running = false;
};

#endif
