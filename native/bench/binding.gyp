{
  # Built by the benchmarks only; requires rdma-core's headers.
  'target_defaults': {
    'cflags_cc!': ['-std=gnu++17', '-std=gnu++20'],
    'cflags_cc': ['-std=c++20', '-Wall', '-Wextra', '-Werror', '-O2'],
  },
  'targets': [
    {
      'target_name': 'null_verbs',
      'type': 'shared_library',
      'sources': ['null_events.cc', 'null_extended.cc', 'null_post.cc', 'null_rdmacm.cc', 'null_verbs.cc'],
    },
    {
      'target_name': 'cpp_loop',
      'sources': ['cpp_loop.cc'],
      'defines': ['NAPI_VERSION=8'],
      'libraries': ['-ldl'],
    },
    {
      'target_name': 'qp_connect',
      'type': 'executable',
      'sources': ['qp_connect.cc'],
      'libraries': ['-libverbs'],
    },
  ],
}
