/* tools/release.sh: what it refuses before it makes anything. Skipped without git. */
#include "support.h"

static const char CHANGELOG[] =
    "# Changelog\n\n## [0.2.0] - 2027-01-31\n\n- A change.\n\n## [0.1.0] - 2026-11-22\n";

/* A repository with this version and changelog, committed; its folder. */
static const char *repository(const char *version, const char *changelog)
{
    if (run("command -v git").exit_code != 0) cr_skip_test("git is not installed");
    const char *folder = scratch("repository");
    run_ok("mkdir '%s/tools' && cd '%s/tools' && cp release.sh setup.sh '%s/tools'", folder, QKV_SOURCE_DIR,
           folder);
    write_text(folder, "CMakeLists.txt", format("project(qkv VERSION %s LANGUAGES C)\n", version));
    write_text(folder, "CHANGELOG.md", changelog);
    run_ok("cd '%s' && git init -q && git add -A && git -c user.name=a -c user.email=a commit -q -m First",
           folder);
    return folder;
}

static struct outcome release(const char *folder, const char *arguments)
{
    return run("GIT_CEILING_DIRECTORIES='%s' '%s/tools/release.sh' %s", folder, folder, arguments);
}

Test(release, a_repository_that_is_ready)
{
    const char *folder = enter(repository("0.2.0", CHANGELOG));
    struct outcome outcome = release(folder, "0.2.0 --dry-run");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_eq(outcome.output, "release.sh: version, changelog and tags agree on 0.2.0\n");
    cr_expect_str_eq(run_ok("git tag && git status --porcelain"), "", "it changes nothing");
}

Test(release, arguments)
{
    const char *folder = repository("0.2.0", CHANGELOG);
    static const char *const cases[][2] = {
        {"", "VERSION is missing (usage: tools/release.sh VERSION [--dry-run])"},
        {"v0.2", "'v0.2' is not a version such as 0.2.0"},
        {"0.2.0 0.3.0", "more than one version"},
        {"0.2.0 --push", "unknown option --push (usage: tools/release.sh VERSION [--dry-run])"},
        {"0.3.0 --dry-run", "CMakeLists.txt says VERSION 0.2.0; set it to 0.3.0 and commit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(refused(release(folder, cases[i][0]), format("release.sh: %s", cases[i][1])));
}

Test(release, a_repository_that_is_not_ready)
{
    const char *folder = enter(repository("0.2.0", CHANGELOG));
    run_ok("git -c user.name=a -c user.email=a tag -a v0.2.0 -m qkv");
    cr_expect(
        refused(release(folder, "0.2.0"), "release.sh: the tag v0.2.0 exists; choose the next version"));
    write_text(folder, "new", "");
    cr_expect(
        refused(release(folder, "0.2.0"),
                "release.sh: there are changes that are not committed; commit them, or `git stash -u`"));
    folder = enter(repository("0.2.0", "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-31\n"));
    cr_expect(refused(release(folder, "0.2.0"), "release.sh: CHANGELOG.md begins with '## [Unreleased]'; its "
                                                "first section must be '## [0.2.0] - YYYY-MM-DD'"));
}
