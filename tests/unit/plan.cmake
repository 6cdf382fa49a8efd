# SPDX-License-Identifier: Apache-2.0
kernelforge_add_tests(unit plan
    SOURCES expression_test.cpp plan_lift_test.cpp plan_resolve_test.cpp plan_steps_test.cpp plan_test.cpp
    LIBRARIES kernelforge_plan)
