{
  "variables": {
    # rdma-core's headers are required at build time only; the libraries are opened at run time.
    "have_verbs%": "<!(pkg-config --exists libibverbs 2>/dev/null && echo 1 || echo 0)",
    # rdma-core supports raw mlx5 requests since release 36.
    "have_mlx5dv%": "<!(pkg-config --exists libibverbs && pkg-config --atleast-version=1.20.36 libmlx5 2>/dev/null && echo 1 || echo 0)",
    "have_rdmacm%": "<!(pkg-config --exists libibverbs librdmacm 2>/dev/null && echo 1 || echo 0)"
  },
  "target_defaults": {
    "defines": ["NAPI_VERSION=8"],
    "cflags": ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
    "cflags_cc": ["-std=c++20"],
    "cflags_cc!": ["-std=gnu++17", "-std=gnu++20"]
  },
  "targets": [
    {
      "target_name": "isoverbs",
      "sources": [
        "native/addon.cc",
        "native/base-args.cc",
        "native/cm-loader.cc",
        "native/env.cc",
        "native/errors.cc",
        "native/handles.cc",
        "native/listener.cc",
        "native/loader.cc",
        "native/memory.cc",
        "native/ring.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS", "NODE_ADDON_API_DISABLE_DEPRECATED"],
      "libraries": ["-ldl"],
      "conditions": [
        ["have_verbs==1", {
          "defines": ["ISOVERBS_HAVE_VERBS"],
          "cflags": ["<!@(pkg-config --cflags-only-I libibverbs)"],
          "sources": [
            "native/ah.cc",
            "native/async.cc",
            "native/channel.cc",
            "native/cq.cc",
            "native/device-ex.cc",
            "native/device.cc",
            "native/lifecycle.cc",
            "native/mlx5.cc",
            "native/mr.cc",
            "native/mw.cc",
            "native/poll.cc",
            "native/poll-ex.cc",
            "native/post-ex.cc",
            "native/post.cc",
            "native/qp-ex.cc",
            "native/qp.cc",
            "native/rereg.cc",
            "native/srq.cc",
            "native/watch.cc",
            "native/xrcd.cc"
          ]
        }],
        ["have_verbs==1 and have_mlx5dv==1", {"defines": ["ISOVERBS_HAVE_MLX5DV"]}],
        ["have_verbs==1 and have_rdmacm==1", {
          "defines": ["ISOVERBS_HAVE_RDMACM"],
          "cflags": ["<!@(pkg-config --cflags-only-I librdmacm)"],
          "sources": ["native/cm.cc", "native/cm-verbs.cc"]
        }]
      ]
    },
    {
      # Requires no rdma-core headers, because the daemon's programs work without devices.
      "target_name": "isoverbs_ipc",
      "sources": [
        "native/base-args.cc",
        "native/errors.cc",
        "native/ipc/addon.cc",
        "native/ipc/clock.cc",
        "native/ipc/close.cc",
        "native/ipc/crc32.cc",
        "native/ipc/icrc.cc",
        "native/ipc/memory.cc",
        "native/ipc/message.cc",
        "native/ipc/notify.cc",
        "native/ipc/socket.cc",
        "native/ipc/udp.cc",
        "native/ipc/wake.cc",
        "native/ipc/watch.cc",
        "native/listener.cc"
      ]
    }
  ]
}
