/* The installed package: a program outside the source finds it through CMake and pkg-config, each
 * header compiles alone, and the libraries define only names that begin with qkv_. */
#include "support.h"

/* examples/xor.c printed that its gradients agree, and learned XOR. */
static void expect_xor(const char *output)
{
    const char *final = strstr(output, "\nupdate 500  loss ");
    cr_assert(shows(output, "gradients agree\n"));
    cr_assert_not_null(final, "%s", output);
    double loss = strtod(final + strlen("\nupdate 500  loss "), NULL);
    cr_assert(loss >= 0 && loss < 0.01, "%s", output);
}

/* Programs that link a sanitized library must be sanitized themselves: QKV_INSTRUMENTATION holds
 * those flags. / */

Test(consumer, is_built_by_cmake)
{
    enter(installed("cmake"));
    run_ok("'%s' -S '%s/tests/install/consumer' -B build -DCMAKE_PREFIX_PATH=$PWD/prefix "
           "-DCMAKE_C_COMPILER='%s' -DCMAKE_C_FLAGS='-Wall -Wextra -Werror %s' && '%s' --build build",
           QKV_CMAKE, QKV_SOURCE_DIR, QKV_COMPILER, QKV_INSTRUMENTATION, QKV_CMAKE);
    expect_xor(run_ok("%s build/xor", QKV_EMULATOR));
    expect_xor(run_ok("%s build/xor_static", QKV_EMULATOR));
    char *with_shared = run_ok("readelf -d build/xor"), *with_static = run_ok("readelf -d build/xor_static");
    cr_expect(shows(with_shared, "[libqkv.so.1]"));
    cr_expect(lacks(with_static, "libqkv"));
    cr_expect(lacks(with_shared, "yaml"),
              "a program that uses the shared library is linked with libraries that only qkv needs");
}

Test(consumer, finds_only_compatible_versions)
{
    const char *folder = installed("version");
    const struct {
        const char *version;
        bool fits;
    } versions[] = {{"0.2", true}, {"0.2.0 EXACT", true}, {"0.1", false}, {"1.0", false}, {"0.3", false}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        enter(scratch("version_source"));
        write_text(".", "CMakeLists.txt",
                   format("cmake_minimum_required(VERSION 3.21)\nproject(version C)\n"
                          "find_package(qkv %s REQUIRED)\n",
                          versions[i].version));
        struct outcome outcome = run("'%s' -B build -DCMAKE_PREFIX_PATH='%s/prefix' -DCMAKE_C_COMPILER='%s'",
                                     QKV_CMAKE, folder, QKV_COMPILER);
        cr_expect_eq(outcome.exit_code == 0, versions[i].fits, "version %s: %s", versions[i].version,
                     outcome.error);
    }
}

#define PKG_CONFIG "PKG_CONFIG_PATH=$(dirname $(find prefix -name qkv.pc)) && export PKG_CONFIG_PATH && "

/* Builds examples/xor.c with pkg-config, runs it, and lists the libraries that it needs. */
static char *build_with_pkg_config(const char *package)
{
    return run_ok(PKG_CONFIG "'%s' -std=c11 -Wall -Wextra -Werror %s -o xor '%s/examples/xor.c' $(pkg-config "
                             "--cflags --libs %s) && LD_LIBRARY_PATH=$(pkg-config --variable=libdir qkv) %s "
                             "./xor && readelf -d xor",
                  QKV_COMPILER, QKV_INSTRUMENTATION, QKV_SOURCE_DIR, package, QKV_EMULATOR);
}

Test(consumer, is_built_by_pkg_config)
{
    enter(installed("pkg"));
    char *shared = build_with_pkg_config("qkv"), *alone = build_with_pkg_config("qkv-static");
    expect_xor(shared);
    cr_expect(strstr(shared, "[libqkv.so.1]") && !strstr(shared, "yaml"), "%s", shared);
    expect_xor(alone);
    cr_expect(lacks(alone, "libqkv"));
    /* A machine with run-time packages alone has no .pc files of the libraries that qkv uses. */
    static const char *const packages[] = {"qkv", "qkv-engine"};
    for (int i = 0; i < 2; i++)
        cr_expect_str_eq(
            run_ok("PKG_CONFIG_LIBDIR=$(dirname $(find prefix -name qkv.pc)) pkg-config --cflags "
                   "--libs %s | tr ' ' '\\n' | grep -v '^-[IL]' | tr -d '\\n'",
                   packages[i]),
            format("-l%s", packages[i]));
    /* Linking everything statically needs what each library needs in turn. Pango and Cairo are loaded when a picture is
     * drawn. */
    char *all = run_ok(PKG_CONFIG "pkg-config --static --libs qkv");
    static const char *const libraries[] = {"-lqkv",   "-lyaml", "openblas", "-lutf8proc",
                                            "-lcjson", "-lz",    "-lm"};
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) cr_expect(shows(all, libraries[i]));
    cr_expect(lacks(all, "cairo"));
    /* The same version everywhere. */
    cr_expect(begins(run_ok("%s prefix/bin/qkv --version", QKV_EMULATOR),
                     format("qkv %s", run_ok(PKG_CONFIG "pkg-config --modversion qkv"))));
}

/* A program that draws nothing starts without the libraries of pictures. */
Test(library, loads_no_library_of_pictures_at_its_start)
{
    const char *folder = installed("pictures");
    char *needed = run_ok("cd '%s/prefix' && ldd bin/qkv $(find . -name 'libqkv.so.*')", folder);
    cr_expect(shows(needed, "libutf8proc"));
    cr_expect(!strstr(needed, "cairo") && !strstr(needed, "pango") && !strstr(needed, "gobject"), "%s",
              needed);
    /* Only a png needs them. */
    run_ok("cd '%s' && LD_DEBUG=files prefix/bin/qkv explain '%s/configs/seeds/simple_attention.yaml' -o "
           "a.svg 2>loaded && grep -q utf8proc loaded && ! grep -q -e cairo -e pango loaded",
           folder, QKV_SOURCE_DIR);
}

/* Warnings in a header are warnings in every program that includes it. */
static void compile_each_header(const char *name, const char *compiler, const char *language)
{
    const char *folder = installed(name);
    char *headers = run_ok("cd '%s/prefix/include' && ls qkv/*.h", folder);
    int count = 0;
    for (char *header = strtok(headers, "\n"); header; header = strtok(NULL, "\n"), count++)
        run_ok("printf '#include <%s>\\n#include <%s>\\n' | %s %s -Wall -Wextra -Wpedantic -Werror "
               "-fsyntax-only "
               "-I '%s/prefix/include' -",
               header, header, compiler, language, folder);
    cr_expect_eq(count, 15); /* the public interface: a further header is to be promised, too */
}

Test(headers, stand_alone_in_c_and_cxx)
{
    compile_each_header("c", "'" QKV_COMPILER "'", "-x c -std=c11");
    skip_without_program("c++");
    compile_each_header("cxx", "c++", "-x c++ -std=c++17");
}

/* C++ programs link with C names, and can write shapes. */
Test(headers, declare_c_functions_in_cxx)
{
    skip_without_program("c++");
    const char *folder = installed("names");
    const char *source =
        write_text(folder, "names.cc",
                   "#include <qkv/layers.h>\n"
                   "static_assert(QKV_SHAPE(2, 3).rank == 2 && QKV_SHAPE(2, 3).size[1] == 3, \"\");\n"
                   "qkv_tensor *twice(qkv_graph *graph, int rows)\n"
                   "{\n"
                   "    qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(rows, 2));\n"
                   "    return qkv_add(graph, x, x);\n"
                   "}\n");
    char *names = run_ok("c++ -std=c++17 -Wall -Wextra -Werror -c -o '%s/names.o' -I '%s/prefix/include' "
                         "'%s' && nm -u '%s/names.o'",
                         folder, folder, source, folder);
    cr_expect(shows(names, " qkv_constant\n") && shows(names, " qkv_add\n"));
}

/* A program could call, or happen to define, any other name that the library exports. The static
 * library also exports the names that its files share. */
static void expect_qkv_names(const char *folder, const char *library, const char *option)
{
    char *names = run_ok("nm %s --defined-only $(find '%s/prefix' -name %s) | awk 'NF == 3 { print $3 }'",
                         option, folder, library);
    int names_found = 0;
    for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"), names_found++)
        cr_expect(begins(name, "qkv_"), "%s: %s", library, name);
    cr_expect_gt(names_found, 100);
}

Test(library, defines_only_qkv_names)
{
    if (*QKV_INSTRUMENTATION)
        cr_skip_test("instrumented: the library also has names of the run-time library");
    const char *folder = installed("symbols");
    expect_qkv_names(folder, "libqkv.so", "--dynamic");
    expect_qkv_names(folder, "libqkv.a", "--extern-only");
}

/* Configures a project that contains qkv as a subfolder, and that has targets and settings of its own. */
static const char *configure_parent(const char *name, const char *options)
{
    const char *folder = scratch(name);
    char *list = format("cmake_minimum_required(VERSION 3.21)\n"
                        "project(parent C)\n"
                        "add_custom_target(uninstall)\n"
                        "add_custom_target(coverage)\n"
                        "add_subdirectory('%s' qkv)\n"
                        "add_executable(xor '%s/examples/xor.c')\n"
                        "target_link_libraries(xor PRIVATE qkv::qkv_static)\n"
                        "add_executable(xor_shared '%s/examples/xor.c')\n"
                        "target_link_libraries(xor_shared PRIVATE qkv::qkv)\n",
                        QKV_SOURCE_DIR, QKV_SOURCE_DIR, QKV_SOURCE_DIR);
    for (char *quote = list; (quote = strchr(quote, '\'')); quote++) *quote = '"';
    write_text(folder, "CMakeLists.txt", list);
    run_ok("'%s' -G 'Unix Makefiles' -S '%s' -B '%s/build' -DCMAKE_C_COMPILER='%s' %s", QKV_CMAKE, folder,
           folder, QKV_COMPILER, options);
    return folder;
}

Test(subproject, builds_the_library_alone)
{
    const char *folder = configure_parent("subproject", "");
    char *targets = run_ok("'%s' --build '%s/build' --target help", QKV_CMAKE, folder);
    cr_expect(shows(targets, "... qkv_static\n"));
    const char *others[] = {"... qkv\n", "... qkv-bench\n", "... install_consumer\n",
                            "... qkv_test_support\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect(lacks(targets, others[i]), "the parent gets the target %s", others[i]);
    run_ok("grep -qx 'CMAKE_BUILD_TYPE:STRING=' '%s/build/CMakeCache.txt'", folder);
    run_ok("test ! -e '%s/build/compile_commands.json'", folder);
    run_ok("'%s' --install '%s/build' --prefix '%s/prefix' && test -z \"$(find '%s/prefix' -type f)\"",
           QKV_CMAKE, folder, folder, folder);
}

Test(subproject, respects_the_release_flags_of_the_user)
{
    const char *folder = configure_parent("flags", "-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE='-O1 "
                                                   "-DCHOSEN' -DCMAKE_EXPORT_COMPILE_COMMANDS=ON");
    char *commands = run_ok("grep '\"command\"' '%s/build/compile_commands.json'", folder);
    int count = 0;
    for (char *line = strtok(commands, "\n"); line; line = strtok(NULL, "\n"), count++) {
        cr_expect(shows(line, "-O1 -DCHOSEN"));
        cr_expect(!strstr(line, "-O2") && !strstr(line, "-Os") && !strstr(line, "-O3"), "%s", line);
    }
    cr_expect_gt(count, 100);
}

/* Installed and uninstalled: no file is left but those of others. */
Test(uninstall, removes_what_was_installed)
{
    enter(installed("uninstall"));
    static const char *const files[] = {
        "share/qkv/configs/toy_en_es.yaml",     "share/qkv/configs/seeds/simple_attention.yaml",
        "share/qkv/datasets/en_es/lexicon.txt", "share/doc/qkv/LICENSE",
        "share/doc/qkv/docs/library.md",        "share/doc/qkv/examples/own_network.c"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) run_ok("test -s prefix/%s", files[i]);
    write_text(".", "prefix/include/other.h", "/* of another package */\n");
    run_ok("find $PWD/prefix -name other.h -o ! -type d -print >manifest.txt");
#define UNINSTALL(manifest)                                                                                  \
    "'" QKV_CMAKE "' -D MANIFEST=$PWD/" manifest " -P '" QKV_SOURCE_DIR "/tools/package/uninstall.cmake'"
    run_ok(UNINSTALL("manifest.txt"));
    cr_expect_str_eq(run_ok("cd prefix && find . ! -type d; find . -name qkv"), "./include/other.h\n");
    struct outcome outcome = run(UNINSTALL("nothing.txt"));
    cr_expect_neq(outcome.exit_code, 0);
    cr_expect(shows(outcome.error, "nothing to uninstall"));
}
