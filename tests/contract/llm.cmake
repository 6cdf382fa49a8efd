# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(contract llm
    SOURCES llm_backend_subjects.cpp llm_backend_test.cpp ../support/http_server.cpp
    LIBRARIES $<TARGET_NAME_IF_EXISTS:llm_anthropic> $<TARGET_NAME_IF_EXISTS:llm_openai> llm_batch llm_command llm_replay kernelforge_chat
              KernelForge::kernelforge kernelforge_base)
if(TARGET llm_openai)
    target_compile_definitions(contract_llm_test_objects PRIVATE KERNELFORGE_TEST_OPENAI)
endif()
