// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs templates in the reference's own engine: one {"template", "variables"} a line in, one {"text"} or {"error"} a line out.
// record.py says how it is built.

#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "jinja/value.h"
#include "json.h"

#include <iostream>
#include <string>

static std::string render(const common_json & request) {
    jinja::lexer lexer;
    const auto tokens = lexer.tokenize(request.at("template").get<std::string>());
    const auto program = jinja::parse_from_tokens(tokens);
    jinja::context context(tokens.source);
    jinja::global_from_json(context, request.at("variables"), true);
    const auto results = jinja::runtime(context).execute(program);
    return jinja::runtime::gather_string_parts(results)->as_string().str();
}

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        common_json answer = common_json::object();
        try {
            answer["text"] = render(common_json::parse(line));
        } catch (const std::exception & error) {
            answer["error"] = std::string(error.what());
        }
        std::cout << answer.dump_safe() << std::endl;
    }
}
