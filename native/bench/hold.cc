// The baseline of bench:sim: the hold model, an upper bound for the event queue of a C++ simulator.
//   hold EVENTS OPERATIONS        prints pop+push pairs per second of CPU time on std::priority_queue
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <queue>
#include <vector>

namespace {

struct Event {
  double timeNs;
  std::uint32_t kind;
  std::uint32_t target;
  bool operator>(const Event& other) const { return timeNs > other.timeNs; }
};

using Queue = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

double cpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/** A delay from 0 to 1000 ns, drawn by xorshift32. */
double delayNs(std::uint32_t& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return static_cast<double>(state) * (1000.0 / 4294967296.0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto events = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 1000);
  const long operations = argc > 2 ? std::atol(argv[2]) : 20000000;
  std::uint32_t random = 2463534242;
  Queue queue;
  for (std::uint32_t i = 0; i < events; i++) queue.push({delayNs(random), i & 15, i});
  const double start = cpuSeconds();
  for (long i = 0; i < operations; i++) {
    Event event = queue.top();
    queue.pop();
    event.timeNs += delayNs(random);
    queue.push(event);
  }
  const double seconds = cpuSeconds() - start;
  // Printing the state of the queue keeps the compiler from removing the loop.
  std::fprintf(stderr, "%f\n", queue.top().timeNs);
  std::printf("%.0f\n", static_cast<double>(operations) / seconds);
  return 0;
}
