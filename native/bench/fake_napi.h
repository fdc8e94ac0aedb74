// An implementation, without Node.js, of the part of Node-API that the addon uses. Values are plain objects, so that a
// memory checker sees only the addon. One thread, one env, no garbage collection: values live until the env ends.
#pragma once

#include <node_api.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace fake {

/** The env. Ending it runs the cleanup hooks and finalizers, as at the end of a process. */
napi_env env();
void end();

/** The instance data of the addon. */
void* instance();

/** Number of references that have not been deleted. */
size_t references();

napi_value number(double value);
napi_value text(const char* value);
napi_value boolean(bool value);
/** An ArrayBuffer over memory of the caller. */
napi_value words(uint32_t* data, size_t length);
napi_value bytes(uint8_t* data, size_t length);

/** Calls a function of the addon; returns null if an exception is pending. */
napi_value call(napi_callback callback, std::initializer_list<napi_value> args);

/** Clears the pending exception and returns its message; empty if there is none. */
std::string takeException();

double toNumber(napi_value value);
/** A property of an object. */
napi_value property(napi_value object, const char* name);
/** The memory of an ArrayBuffer. */
void* memory(napi_value buffer);

}  // namespace fake
