/*
 * A main() for fuzz targets where libFuzzer is not: runs the target once over each file of the
 * folders given, so that every corpus is replayed by the ordinary test run. TAP on stdout.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

/* Each input stands in a block of exactly its size, so that ASan sees a read past its end. */
static int replay_file(const char *folder, const char *name)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length > 0 && (size_t) length < sizeof path ? fopen(path, "rb") : NULL;
    if (!file)
        return -1;
    uint8_t *data = NULL;
    size_t size = 0;
    if (fseek(file, 0, SEEK_END) == 0) {
        long end = ftell(file);
        size = end > 0 ? (size_t) end : 0;
        rewind(file);
        data = malloc(size ? size : 1);
    }
    int ok = data && fread(data, 1, size, file) == size;
    fclose(file);
    if (ok)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
    printf("%s %u - %s\n", ok ? "ok" : "not ok", replayed, name);
    return ok ? 0 : -1;
}

int main(int argc, char **argv)
{
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(folder));)
            if (entry->d_name[0] != '.')
                failures += replay_file(argv[i], entry->d_name) < 0;
        closedir(folder);
    }
    printf("1..%u\n", replayed);
    return failures != 0 || replayed == 0;
}
