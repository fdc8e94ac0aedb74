// As much of Node-API as the addon uses, without Node.js: values are plain objects, so that a checker of memory sees
// the addon alone. One thread, one env, no garbage collection: what is made lives until the env ends.
#pragma once

#include <node_api.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace fake {

/** The env; ending it runs the cleanup hooks and the finalizers, as the end of a process does. */
napi_env env();
void end();

/** The instance data: what the addon's functions get as theirs. */
void* instance();

/** How many references there are that nobody has deleted. */
size_t references();

napi_value number(double value);
napi_value text(const char* value);
napi_value boolean(bool value);
/** Over memory of the caller's. */
napi_value words(uint32_t* data, size_t length);
napi_value bytes(uint8_t* data, size_t length);

/** Calls a function of the addon; null with an exception pending. */
napi_value call(napi_callback callback, std::initializer_list<napi_value> args);

/** The message of the pending exception, which is cleared; empty: none. */
std::string takeException();

double toNumber(napi_value value);
/** A property of an object. */
napi_value property(napi_value object, const char* name);
/** The memory of an ArrayBuffer. */
void* memory(napi_value buffer);

}  // namespace fake
