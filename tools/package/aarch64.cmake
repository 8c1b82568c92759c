# Toolchain for 64-bit Arm on another processor: Debian's cross compiler, a folder with Debian's arm64 libraries (made by
# tools/nightly.sh aarch64), and qemu to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64-sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${CMAKE_SYSROOT})
# OpenBLAS is not linked into the usual folder, because the packages are unpacked and their scripts are not run.
set(libraries ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${libraries}/openblas-pthread/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
