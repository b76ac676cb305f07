/* The folders that models are in: names, lists, and the stamps that tell whether files changed. */
#include "server/models/folder.h"

#include "tests/inline/stage.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void names_are_checked(void)
{
    char longest[SRV_MODEL_NAME_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    longest[SRV_MODEL_NAME_BYTES] = '\0';
    CHECK(!srv_model_name_is_valid(longest), "129 characters");
    longest[SRV_MODEL_NAME_BYTES - 1] = '\0';
    CHECK(srv_model_name_is_valid(longest), "128 characters");
    const char *const good[] = {"a", "Demo-1.5_x", "-", "_", "0.", "a..b"};
    const char *const bad[] = {"", ".", "..", ".a", "a/b", "a b", "a\n", "\xc3\xa4", "a\\", "a%2f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(srv_model_name_is_valid(good[i]), "\"%s\"", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!srv_model_name_is_valid(bad[i]), "\"%s\"", bad[i]);
}

static void folders_are_listed(void)
{
    stage b;
    stage_prepare(&b);
    const char *const folders[] = {"b", "a", "c", ".hidden", "with space", "Z"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        stage_folder(&b, folders[i]);
    stage_file(&b, "README", "");
    CHECK(symlink("a", stage_path(&b, "link")) == 0, "a link");
    CHECK(symlink("nowhere", stage_path(&b, "dangling")) == 0, "a link to nothing");
    srv_model_names names;
    attn_error error = {0};
    attn_status status = srv_model_names_read(&names, b.folder, &b.log, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
    const char *const expected[] = {"Z", "a", "b", "c", "link"};
    CHECK(names.count == 5, "%zu names", names.count);
    for (size_t i = 0; i < names.count && i < 5; i++)
        CHECK(strcmp(names.list[i], expected[i]) == 0, "%s, expected %s", names.list[i],
              expected[i]);
    CHECK(srv_model_names_hold(&names, "link") && !srv_model_names_hold(&names, "dangling"),
          "what is held");
    CHECK(stage_logged(&b, "with space") && !stage_logged(&b, "hidden"), "the warning");
    srv_model_names_free(&names);
    CHECK(srv_model_names_read(&names, stage_path(&b, "gone"), &b.log, &error) == ATTN_INVALID &&
              strstr(error.message, "gone"),
          "%s", error.message);
    srv_model_names_free(&names);
    close(b.log_fd);
    stage_remove(b.folder);
}

static uint64_t stamp_of(const stage *b, const char *name)
{
    uint64_t stamp = 0;
    CHECK(srv_model_folder_stamp(stage_path(b, name), &stamp), "%s", name);
    return stamp;
}

static void stamps_follow_the_files(void)
{
    stage b;
    uint64_t stamp = 0;
    stage_prepare(&b);
    CHECK(!srv_model_folder_stamp(stage_path(&b, "m"), &stamp), "no folder, no stamp");
    stage_model(&b, "m", "1");
    CHECK(!srv_model_folder_stamp(stage_path(&b, "m/config.json"), &stamp), "a file is no folder");
    uint64_t before = stamp_of(&b, "m");
    CHECK(stamp_of(&b, "m") == before, "nothing changed");
    stage_file(&b, "m/README.md", "for people");
    CHECK(stamp_of(&b, "m") == before, "a file that is not read");
    static const char *const files[] = {"m/config.json", "m/model.safetensors",
                                        "m/adapters/x/adapter_model.safetensors"};
    stage_folder(&b, "m/adapters");
    stage_folder(&b, "m/adapters/x");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        stage_file(&b, files[i], "1"); /* the same bytes, another file */
        CHECK(stamp_of(&b, "m") != before, "%s was replaced", files[i]);
        before = stamp_of(&b, "m");
    }
    const struct timespec times[] = {{1, 0}, {1, 5}};
    CHECK(utimensat(AT_FDCWD, stage_path(&b, "m/config.json"), times, 0) == 0, "a time");
    CHECK(stamp_of(&b, "m") != before, "a nanosecond is a change");
    before = stamp_of(&b, "m");
    CHECK(unlink(stage_path(&b, files[2])) == 0 && stamp_of(&b, "m") != before,
          "an adapter is gone");
    close(b.log_fd);
    stage_remove(b.folder);
}

int main(void)
{
    return test_main("models_folder", (const test_case[]){
                                          {"names are checked", names_are_checked},
                                          {"folders are listed", folders_are_listed},
                                          {"stamps follow the files", stamps_follow_the_files},
                                          {NULL, NULL},
                                      });
}
