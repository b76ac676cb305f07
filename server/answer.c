/* Answers and the two shapes of a refusal. */
#include "server/answer.h"

#include <stdlib.h>
#include <string.h>

bool srv_answer_add(srv_answer *answer, char *data, size_t length)
{
    if (!data)
        return false;
    if (answer->part_count == answer->part_room) {
        size_t room = answer->part_room ? 2 * answer->part_room : 4;
        srv_part *parts = realloc(answer->parts, room * sizeof *parts);
        if (!parts) {
            free(data);
            return false;
        }
        answer->parts = parts;
        answer->part_room = room;
    }
    answer->parts[answer->part_count++] = (srv_part){data, length};
    return true;
}

bool srv_answer_add_text(srv_answer *answer, srv_text *text)
{
    size_t length;
    char *data = srv_text_release(text, &length);
    return srv_answer_add(answer, data, length);
}

void srv_answer_text(srv_answer *answer, int status, const char *content_type, srv_text *text)
{
    answer->status = srv_answer_add_text(answer, text) ? status : 503;
    answer->content_type = content_type;
}

static void print_problem(srv_text *text, const srv_problem *problem, const char *request_id)
{
    srv_text_string(text, "{\"error\": {\"type\": ");
    srv_text_json(text, srv_problem_type(problem->id));
    srv_text_string(text, ", \"message\": ");
    srv_text_json(text, problem->message);
    if (problem->param[0]) {
        srv_text_string(text, ", \"param\": ");
        srv_text_json(text, problem->param);
    }
    srv_text_string(text, ", \"request_id\": ");
    srv_text_json(text, request_id);
    srv_text_string(text, "}}\n");
}

void srv_answer_problem(srv_answer *answer, const srv_problem *problem, const char *path,
                        const char *request_id)
{
    srv_answer_free(answer);
    srv_text text = SRV_TEXT_EMPTY;
    if (strncmp(path, "/v2", 3) == 0 && (path[3] == '/' || path[3] == '\0')) {
        srv_text_string(&text, "{\"error\": ");
        srv_text_json(&text, problem->message);
        srv_text_string(&text, "}\n");
    } else {
        print_problem(&text, problem, request_id);
    }
    srv_answer_text(answer, srv_problem_http(problem->id), SRV_JSON_TYPE, &text);
    answer->problem_type = srv_problem_type(problem->id);
    if (answer->status == 503 || answer->status == 429)
        answer->retry_after_s = problem->retry_after_s ? problem->retry_after_s : 1;
}

size_t srv_answer_bytes(const srv_answer *answer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < answer->part_count; i++)
        bytes += answer->parts[i].length;
    return bytes;
}

void srv_answer_free(srv_answer *answer)
{
    for (size_t i = 0; i < answer->part_count; i++)
        free(answer->parts[i].data);
    free(answer->parts);
    *answer = (srv_answer){0};
}
