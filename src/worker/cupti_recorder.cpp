// SPDX-License-Identifier: Apache-2.0
#include "worker/cupti_recorder.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "kernelforge/error.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
constexpr std::size_t buffer_alignment = 8;

/// The functions that are used; members carry the vendor's names.
struct CuptiTable {
    decltype(&::cuptiSubscribe) cuptiSubscribe = nullptr;
    decltype(&::cuptiEnableDomain) cuptiEnableDomain = nullptr;
    decltype(&::cuptiActivityRegisterCallbacks) cuptiActivityRegisterCallbacks = nullptr;
    decltype(&::cuptiActivityEnable) cuptiActivityEnable = nullptr;
    decltype(&::cuptiActivityFlushAll) cuptiActivityFlushAll = nullptr;
    decltype(&::cuptiActivityGetNextRecord) cuptiActivityGetNextRecord = nullptr;
    decltype(&::cuptiActivityGetNumDroppedRecords) cuptiActivityGetNumDroppedRecords = nullptr;
    decltype(&::cuptiGetResultString) cuptiGetResultString = nullptr;
};

/// What CUPTI's callbacks write. Buffer callbacks take no user pointer, hence the one global.
struct Recording {
    CuptiTable cupti;
    std::mutex mutex;  // guards records and dropped: buffers complete on a thread of CUPTI's
    std::vector<ActivityRecord> records;
    std::size_t dropped = 0;
    std::atomic<std::uint32_t> newest{0};  // of any thread: libraries may have their own
};

Recording* recording = nullptr;

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
    *size = *buffer == nullptr ? 0 : buffer_bytes;
    *max_records = 0;
}

void append(const CUpti_Activity* activity, std::vector<ActivityRecord>& records) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
        activity->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        // The members that are read stand at the same place in all versions of the record
        // since 9.0.
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(activity);
        records.push_back({kernel->correlationId, kernel->start, kernel->end});
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const auto* memset = reinterpret_cast<const CUpti_ActivityMemset4*>(activity);
        records.push_back({memset->correlationId, memset->start, memset->end});
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity);
        records.push_back({copy->correlationId, copy->start, copy->end});
    }
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t, std::size_t valid_bytes) {
    const CuptiTable& cupti = recording->cupti;
    CUpti_Activity* activity = nullptr;
    {
        const std::lock_guard lock(recording->mutex);
        while (valid_bytes != 0 &&
               cupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
            append(activity, recording->records);
        }
        std::size_t dropped = 0;
        if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
            recording->dropped += dropped;
        }
    }
    std::free(buffer);
}

void CUPTIAPI api_called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (call->callbackSite != CUPTI_API_ENTER) return;
    std::uint32_t known = recording->newest.load(std::memory_order_relaxed);
    while (is_later(call->correlationId, known) &&
           !recording->newest.compare_exchange_weak(known, call->correlationId,
                                                    std::memory_order_relaxed)) {
    }
}

std::string describe(const CuptiTable& cupti, CUptiResult result) {
    const char* text = nullptr;
    if (cupti.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "?";
    return std::string(text) + " (" + std::to_string(static_cast<int>(result)) + ")";
}

class Recorder final : public CuptiRecorder {
  public:
    std::uint32_t newest_correlation() const override {
        return recording->newest.load(std::memory_order_relaxed);
    }

    void clear() override {
        flush();
        const std::lock_guard lock(recording->mutex);
        recording->records.clear();
        recording->dropped = 0;
    }

    std::vector<ActivityRecord> take_records() override {
        flush();
        const std::lock_guard lock(recording->mutex);
        if (recording->dropped != 0) {
            throw Error(ErrorCode::device_unavailable, "CUPTI dropped " +
                                                           std::to_string(recording->dropped) +
                                                           " activity records of a timed block");
        }
        return std::exchange(recording->records, {});
    }

  private:
    /// Forced: the context is idle, so every record is complete, also in a buffer that is not full.
    static void flush() {
        const CUptiResult result =
            recording->cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        if (result != CUPTI_SUCCESS) {
            throw Error(ErrorCode::device_unavailable,
                        "cuptiActivityFlushAll: " + describe(recording->cupti, result));
        }
    }
};

template <class F>
bool look_up(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    return function != nullptr;
}

bool look_up_all(void* library, CuptiTable& table) {
    return look_up(library, "cuptiSubscribe", table.cuptiSubscribe) &&
           look_up(library, "cuptiEnableDomain", table.cuptiEnableDomain) &&
           look_up(library, "cuptiActivityRegisterCallbacks",
                   table.cuptiActivityRegisterCallbacks) &&
           look_up(library, "cuptiActivityEnable", table.cuptiActivityEnable) &&
           look_up(library, "cuptiActivityFlushAll", table.cuptiActivityFlushAll) &&
           look_up(library, "cuptiActivityGetNextRecord", table.cuptiActivityGetNextRecord) &&
           look_up(library, "cuptiActivityGetNumDroppedRecords",
                   table.cuptiActivityGetNumDroppedRecords) &&
           look_up(library, "cuptiGetResultString", table.cuptiGetResultString);
}

void* open_library(const std::vector<std::string>& paths) {
    std::vector<std::string> names = paths;
    names.insert(names.end(),
                 {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                  "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                  "/usr/local/cuda/lib64/libcupti.so", "/opt/cuda/extras/CUPTI/lib64/libcupti.so"});
    for (const std::string& name : names) {
        if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    return nullptr;
}

/// The first refusal; CUPTI_SUCCESS when recording runs.
CUptiResult start(const CuptiTable& cupti, std::string& what) {
    const auto tried = [&](CUptiResult result, const char* name) {
        if (result != CUPTI_SUCCESS) what = name;
        return result == CUPTI_SUCCESS;
    };
    CUpti_SubscriberHandle subscriber{};
    CUptiResult result = CUPTI_SUCCESS;
    const bool started =
        tried(result = cupti.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed),
              "cuptiActivityRegisterCallbacks") &&
        tried(result = cupti.cuptiSubscribe(&subscriber, api_called, nullptr), "cuptiSubscribe") &&
        tried(result = cupti.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API),
              "cuptiEnableDomain(driver)") &&
        // The records of what a library launches through the runtime carry the id of that call.
        tried(result = cupti.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API),
              "cuptiEnableDomain(runtime)") &&
        tried(result = cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
              "cuptiActivityEnable(concurrent kernel)") &&
        tried(result = cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET),
              "cuptiActivityEnable(memset)") &&
        tried(result = cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY),
              "cuptiActivityEnable(memcpy)");
    (void)started;
    return result;
}

}  // namespace

CuptiOutcome start_cupti(const std::vector<std::string>& paths) {
    if (recording != nullptr) return {nullptr, "CUPTI already records in this process"};
    void* library = open_library(paths);
    if (library == nullptr) return {nullptr, "libcupti.so was not found"};
    CuptiTable table;
    if (!look_up_all(library, table)) {
        return {nullptr, "libcupti.so lacks a function of the activity interface"};
    }
    // Lives as long as the process: CUPTI's thread may complete a buffer at any time.
    recording = new Recording;
    recording->cupti = table;
    std::string what;
    const CUptiResult result = start(table, what);
    if (result != CUPTI_SUCCESS) return {nullptr, what + ": " + describe(table, result)};
    return {std::make_unique<Recorder>(), ""};
}

}  // namespace kernelforge::worker
