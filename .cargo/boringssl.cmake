# As CMake has it, but for `-g`. BoringSSL asks for debugging information, too, earlier on the command line.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG -g0" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG -g0" CACHE STRING "")
