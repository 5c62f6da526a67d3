/*
 * protoc-gen-pekoe: a CodeGeneratorRequest on standard input, a CodeGeneratorResponse on standard
 * output. protoc starts it for --pekoe_out=DIR. The user's errors are part of the response and
 * leave with exit code 0, as the plugin protocol wants it; 1 means that the input was none of
 * protoc's, or that reading or writing failed.
 */
#include "codegen/run.h"

#include <stdio.h>
#include <string.h>

static const char usage[] = "protoc-gen-pekoe is a plugin of protoc, which starts it itself:\n"
                            "  protoc --pekoe_out=DIR [--pekoe_opt=KEY=VALUE] FILE.proto\n";

static int read_all(FILE *input, struct gen_text *ret_text)
{
    char block[16384];
    size_t length;

    while ((length = fread(block, 1, sizeof block, input)) > 0)
        gen_text_append(ret_text, block, length);
    return ferror(input) ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct gen_text request = {0};
    struct gen_text response = {0};
    int code = 1;

    if (argc > 1) {
        int wanted = strcmp(argv[1], "--help") == 0;

        fputs(usage, wanted ? stdout : stderr);
        return wanted ? 0 : 1;
    }
    if (read_all(stdin, &request) < 0) {
        perror("protoc-gen-pekoe: standard input");
    } else if (gen_run_request((const uint8_t *) request.data, request.length, &response) < 0) {
        fputs("protoc-gen-pekoe: standard input holds no CodeGeneratorRequest\n", stderr);
    } else if (fwrite(response.data, 1, response.length, stdout) != response.length ||
               fflush(stdout) != 0) {
        perror("protoc-gen-pekoe: standard output");
    } else {
        code = 0;
    }
    gen_text_done(&request);
    gen_text_done(&response);
    return code;
}
