/* tools/release.sh: what it refuses before it makes anything. Skipped without git. */
#include "support.h"

static const char CHANGELOG[] =
    "# Changelog\n\n## [0.2.0] - 2027-01-31\n\n- A change.\n\n## [0.1.0] - 2026-11-22\n";

#define GIT     "git -c user.name=a -c user.email=a "
#define RELEASE "GIT_CEILING_DIRECTORIES=$PWD tools/release.sh "

/* Enters a repository of version 0.2.0, committed. */
static void enter_repository(void)
{
    skip_without_program("git");
    enter(scratch("repository"));
    write_text(".", "CMakeLists.txt", "project(qkv VERSION 0.2.0 LANGUAGES C)\n");
    write_text(".", "CHANGELOG.md", CHANGELOG);
    run_ok("mkdir tools && cp '" QKV_SOURCE_DIR "/tools/release.sh' '" QKV_SOURCE_DIR
           "/tools/setup.sh' tools && "
           "git init -q && git add -A && " GIT "commit -q -m First");
}

TestSuite(release, .init = enter_repository);

Test(release, a_repository_that_is_ready)
{
    cr_expect_str_eq(run_ok(RELEASE "0.2.0 --dry-run"),
                     "release.sh: version, changelog and tags agree on 0.2.0\n");
    cr_expect_str_eq(run_ok("git tag && git status --porcelain"), "", "it changes nothing");
}

/* Wrong arguments; and what is committed next, or not. */
Test(release, what_is_not_ready_is_refused)
{
    static const char *const arguments[][2] = {
        {"", "release.sh: VERSION is missing (usage: tools/release.sh VERSION [--dry-run])"},
        {"v0.2", "release.sh: 'v0.2' is not a version such as 0.2.0"},
        {"0.2.0 0.3.0", "release.sh: more than one version"},
        {"0.2.0 --push", "release.sh: unknown option --push (usage: tools/release.sh VERSION [--dry-run])"},
        {"0.3.0 --dry-run", "release.sh: CMakeLists.txt says VERSION 0.2.0; set it to 0.3.0 and commit"},
    };
    static const char *const states[][2] = {
        {GIT "tag -a v0.2.0 -m qkv && " RELEASE "0.2.0",
         "release.sh: the tag v0.2.0 exists; choose the next version\n"},
        {"touch new && " RELEASE "0.2.0",
         "release.sh: there are changes that are not committed; commit them, or `git stash -u`\n"},
        {"sed -i '2a ## [Unreleased]\\n' CHANGELOG.md && git add -A && " GIT "commit -q -m Second && git tag "
         "-d v0.2.0 >deleted; rm deleted && " RELEASE "0.2.0",
         "release.sh: CHANGELOG.md begins with '## [Unreleased]'; its first section must be '## [0.2.0] - "
         "YYYY-MM-DD'\n"},
    };
    EXPECT_REFUSALS(RELEASE, arguments);
    EXPECT_FAILURES("", states);
}
