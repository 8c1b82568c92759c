# A Debian package of everything that `cmake --install` installs; tools/package.sh makes it from a tarball of the source:
#     cmake --preset release && cmake --build --preset release
#     cpack --config build/release/CPackConfig.cmake -B build/package
set(CPACK_PACKAGE_NAME qkv)
set(CPACK_PACKAGE_CONTACT "The qkv authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainable mini-transformers: program and C library")
set(CPACK_PACKAGE_DESCRIPTION "Trains small translators from YAML configs on an ordinary CPU, checks their gradients, and \
shows the attention that they learned. With the C library: tensors, autograd, layers, training, search.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)

set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Pictures in PNG load Cairo and Pango when the first one is drawn; programs that use the library need the headers.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "libcairo2, libpangocairo-1.0-0, libyaml-dev, libopenblas-dev, libutf8proc-dev, libcjson-dev, zlib1g-dev")
include(CPack)
