# SPDX-License-Identifier: Apache-2.0
if(TARGET llm_openai)
    set(kernelforge_openai_tests llm_anthropic_test.cpp llm_openai_test.cpp ../support/http_server.cpp)
    set(kernelforge_openai_libraries llm_anthropic llm_openai)
endif()
kernelforge_add_tests(unit llm
    SOURCES llm_batch_test.cpp llm_chat_format_test.cpp llm_command_test.cpp llm_replay_test.cpp recording_test.cpp
            ${kernelforge_openai_tests}
    LIBRARIES ${kernelforge_openai_libraries} llm_batch llm_command llm_replay kernelforge_chat KernelForge::kernelforge
              kernelforge_base)
