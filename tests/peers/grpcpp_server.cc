/* peers.Echo on grpc++, replies compressed: grpcpp-server --listen ADDRESS. */
#include "peers.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

using grpc::ServerContext;
using grpc::Status;
using peers::Reply;
using peers::Request;

namespace {

/* One call: what it saw is part of each reply. */
class Call {
public:
    explicit Call(ServerContext *context) : context_(context)
    {
        auto left = context->deadline() - std::chrono::system_clock::now();
        if (left < std::chrono::hours(1000))
            time_left_ = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
        context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
        for (const auto &field : context->client_metadata()) {
            std::string name(field.first.data(), field.first.size());
            std::string value(field.second.data(), field.second.size());
            if (name == "x-user") {
                context->AddInitialMetadata("x-head", value);
                seen_.add_user(value);
            } else if (name == "x-data-bin") {
                context->AddTrailingMetadata("x-tail-bin", value);
                seen_.add_data(value);
            }
        }
    }

    Status Take(const Request &request)
    {
        messages_++;
        std::this_thread::sleep_for(std::chrono::milliseconds(request.sleep_ms()));
        if (request.code() == 0)
            return Status::OK;
        return Status(static_cast<grpc::StatusCode>(request.code()), request.text());
    }

    Reply Say(const std::string &text) const
    {
        Reply reply = seen_;
        reply.set_text(text);
        reply.set_messages(messages_);
        reply.set_time_left_ms(time_left_);
        return reply;
    }

private:
    ServerContext *context_;
    Reply seen_;
    unsigned messages_ = 0;
    long time_left_ = -1;
};

class Echo final : public peers::Echo::Service {
    Status Unary(ServerContext *context, const Request *request, Reply *reply) override
    {
        Call call(context);
        Status status = call.Take(*request);
        *reply = call.Say(request->text());
        return status;
    }

    Status ServerStream(ServerContext *context, const Request *request,
                        grpc::ServerWriter<Reply> *out) override
    {
        Call call(context);
        Status status = call.Take(*request);
        for (unsigned i = 0; i < request->replies() && status.ok(); i++)
            out->Write(call.Say(request->text()));
        return status;
    }

    Status ClientStream(ServerContext *context, grpc::ServerReader<Request> *in,
                        Reply *reply) override
    {
        Call call(context);
        Request request;
        std::string text;
        Status status = Status::OK;
        while (status.ok() && in->Read(&request)) {
            status = call.Take(request);
            text += request.text();
        }
        *reply = call.Say(text);
        return status;
    }

    Status Chat(ServerContext *context, grpc::ServerReaderWriter<Reply, Request> *both) override
    {
        Call call(context);
        Request request;
        Status status = Status::OK;
        while (status.ok() && both->Read(&request)) {
            status = call.Take(request);
            if (status.ok())
                both->Write(call.Say(request.text()));
        }
        return status;
    }
};

} // namespace

int main(int argc, char **argv)
{
    sigset_t ends;
    int which;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr); /* before grpc++ starts its threads */
    Echo echo;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(argc > 2 ? argv[2] : "127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&echo);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    std::printf("listening on 127.0.0.1:%d\n", port);
    std::fflush(stdout);
    sigwait(&ends, &which);
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    return 0;
}
