// Prints the request that native/mlx5-wqe.h builds from each input line; test/process/mlx5-wqe.test.ts has the expected
// bytes.
#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "../../../native/mlx5-wqe.h"

using namespace isoverbs::mlx5;

static void print(const CrossChannelWqe& wqe) {
  for (const uint8_t byte : wqe.bytes) std::printf("%02x", byte);
  std::printf("\n");
}

int main() {
  char what = 0;
  uint32_t a[5];
  WaitIndex waits;
  EnableIndex enables;
  while (std::scanf(" %c %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &what, a, a + 1, a + 2, a + 3,
                    a + 4) == 6) {
    uint32_t index = 0;
    switch (what) {
      case 'W':
        print(encodeWait(a[0], a[1], a[2], a[3], a[4] != 0));
        break;
      case 'E':
        print(encodeSendEnable(a[0], a[1], a[2], a[3], a[4] != 0));
        break;
      case 'w':
        std::printf("%" PRIu32 "\n", waits.next(a[0], a[1]));
        break;
      case 'r':
        std::printf("%d\n", isReached(a[0], a[1]) ? 1 : 0);
        break;
      case 'p':
        enables.posted(a[0]);
        std::printf("posted\n");
        break;
      case 'e':
        if (enables.next(a[0], &index)) std::printf("%" PRIu32 "\n", index);
        else std::printf("EINVAL\n");
        break;
      default:
        return 1;
    }
  }
  return 0;
}
