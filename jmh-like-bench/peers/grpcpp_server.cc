// grpc++ of Debian, the same greeter: `grpcpp-server async|callback PORT`. BDP probes are off, as they
// cost a ping now and then. One completion queue and one thread for the asynchronous API.
#include "helloworld.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

using grpc::ServerAsyncReader;
using grpc::ServerAsyncReaderWriter;
using grpc::ServerAsyncResponseWriter;
using grpc::ServerAsyncWriter;
using grpc::ServerCompletionQueue;
using grpc::ServerContext;
using grpc::Status;
using helloworld::Greeter;
using helloworld::HelloReply;
using helloworld::HelloRequest;

namespace {

constexpr int kMessages = 1000;  // of ItKeepsReplying with the name "many"

Status Greet(const HelloRequest &request, HelloReply *reply)
{
    reply->set_message("Hello, " + request.name());
    return Status::OK;
}

class CallbackGreeter final : public Greeter::CallbackService {
    grpc::ServerUnaryReactor *SayHello(grpc::CallbackServerContext *context,
                                       const HelloRequest *request, HelloReply *reply) override
    {
        grpc::ServerUnaryReactor *reactor = context->DefaultReactor();
        reactor->Finish(Greet(*request, reply));
        return reactor;
    }

    class Replies final : public grpc::ServerWriteReactor<HelloReply> {
    public:
        explicit Replies(const HelloRequest &request)
        {
            Greet(request, &reply_);
            Next();
        }
        void OnWriteDone(bool ok) override
        {
            if (ok)
                Next();
            else
                Finish(Status::CANCELLED);
        }
        void OnDone() override { delete this; }

    private:
        void Next()
        {
            if (count_++ < kMessages)
                StartWrite(&reply_);
            else
                Finish(Status::OK);
        }
        HelloReply reply_;
        int count_ = 0;
    };

    grpc::ServerWriteReactor<HelloReply> *ItKeepsReplying(grpc::CallbackServerContext *,
                                                          const HelloRequest *request) override
    {
        return new Replies(*request);
    }

    class Requests final : public grpc::ServerReadReactor<HelloRequest> {
    public:
        explicit Requests(HelloReply *reply) : reply_(reply) { StartRead(&request_); }
        void OnReadDone(bool ok) override
        {
            if (ok) {
                count_++;
                StartRead(&request_);
                return;
            }
            reply_->set_message(std::to_string(count_));
            Finish(Status::OK);
        }
        void OnDone() override { delete this; }

    private:
        HelloReply *reply_;
        HelloRequest request_;
        int count_ = 0;
    };

    grpc::ServerReadReactor<HelloRequest> *ItKeepsTalking(grpc::CallbackServerContext *,
                                                          HelloReply *reply) override
    {
        return new Requests(reply);
    }

    class Answers final : public grpc::ServerBidiReactor<HelloRequest, HelloReply> {
    public:
        Answers() { StartRead(&request_); }
        void OnReadDone(bool ok) override
        {
            if (!ok) {
                Finish(Status::OK);
                return;
            }
            Greet(request_, &reply_);
            StartWrite(&reply_);
        }
        void OnWriteDone(bool ok) override
        {
            if (ok)
                StartRead(&request_);
            else
                Finish(Status::CANCELLED);
        }
        void OnDone() override { delete this; }

    private:
        HelloRequest request_;
        HelloReply reply_;
    };

    grpc::ServerBidiReactor<HelloRequest, HelloReply> *
    StreamHellos(grpc::CallbackServerContext *) override
    {
        return new Answers;
    }
};

// One call of the asynchronous API; its address is the tag.
struct Tag {
    virtual ~Tag() = default;
    virtual void Proceed(bool ok) = 0;
};

class UnaryCall final : public Tag {
public:
    UnaryCall(Greeter::AsyncService *service, ServerCompletionQueue *queue)
        : service_(service), queue_(queue), responder_(&context_)
    {
        service_->RequestSayHello(&context_, &request_, &responder_, queue_, queue_, this);
    }
    void Proceed(bool ok) override
    {
        if (!ok || done_) {
            delete this;
            return;
        }
        new UnaryCall(service_, queue_);
        done_ = true;
        HelloReply reply;
        Status status = Greet(request_, &reply);
        responder_.Finish(reply, status, this);
    }

private:
    Greeter::AsyncService *service_;
    ServerCompletionQueue *queue_;
    ServerContext context_;
    HelloRequest request_;
    ServerAsyncResponseWriter<HelloReply> responder_;
    bool done_ = false;
};

class RepliesCall final : public Tag {
public:
    RepliesCall(Greeter::AsyncService *service, ServerCompletionQueue *queue)
        : service_(service), queue_(queue), writer_(&context_)
    {
        service_->RequestItKeepsReplying(&context_, &request_, &writer_, queue_, queue_, this);
    }
    void Proceed(bool ok) override
    {
        if (!ok || count_ > kMessages) {
            delete this;
            return;
        }
        if (count_ == 0) {
            new RepliesCall(service_, queue_);
            Greet(request_, &reply_);
        }
        if (count_++ < kMessages)
            writer_.Write(reply_, this);
        else
            writer_.Finish(Status::OK, this);
    }

private:
    Greeter::AsyncService *service_;
    ServerCompletionQueue *queue_;
    ServerContext context_;
    HelloRequest request_;
    HelloReply reply_;
    ServerAsyncWriter<HelloReply> writer_;
    int count_ = 0;
};

class RequestsCall final : public Tag {
public:
    RequestsCall(Greeter::AsyncService *service, ServerCompletionQueue *queue)
        : service_(service), queue_(queue), reader_(&context_)
    {
        service_->RequestItKeepsTalking(&context_, &reader_, queue_, queue_, this);
    }
    void Proceed(bool ok) override
    {
        if (done_ || (!begun_ && !ok)) {
            delete this;
            return;
        }
        if (!begun_)
            new RequestsCall(service_, queue_);
        else if (ok)
            count_++;
        begun_ = true;
        if (ok) {
            reader_.Read(&request_, this);
            return;
        }
        done_ = true;
        HelloReply reply;
        reply.set_message(std::to_string(count_));
        reader_.Finish(reply, Status::OK, this);
    }

private:
    Greeter::AsyncService *service_;
    ServerCompletionQueue *queue_;
    ServerContext context_;
    HelloRequest request_;
    ServerAsyncReader<HelloReply, HelloRequest> reader_;
    int count_ = 0;
    bool begun_ = false, done_ = false;
};

class AnswersCall final : public Tag {
public:
    AnswersCall(Greeter::AsyncService *service, ServerCompletionQueue *queue)
        : service_(service), queue_(queue), stream_(&context_)
    {
        service_->RequestStreamHellos(&context_, &stream_, queue_, queue_, this);
    }
    void Proceed(bool ok) override
    {
        if (state_ == kDone || (state_ == kNew && !ok)) {
            delete this;
            return;
        }
        if (state_ == kNew)
            new AnswersCall(service_, queue_);
        if (!ok) {
            state_ = kDone;
            stream_.Finish(Status::OK, this);
        } else if (state_ == kReading) {
            state_ = kWriting;
            HelloReply reply;
            Greet(request_, &reply);
            stream_.Write(reply, this);
        } else {
            state_ = kReading;
            stream_.Read(&request_, this);
        }
    }

private:
    enum { kNew, kReading, kWriting, kDone } state_ = kNew;
    Greeter::AsyncService *service_;
    ServerCompletionQueue *queue_;
    ServerContext context_;
    HelloRequest request_;
    ServerAsyncReaderWriter<HelloReply, HelloRequest> stream_;
};

}  // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: grpcpp-server async|callback PORT\n");
        return 2;
    }
    bool async = std::strcmp(argv[1], "async") == 0;
    Greeter::AsyncService asynchronous;
    CallbackGreeter callback;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(std::string("127.0.0.1:") + argv[2],
                             grpc::InsecureServerCredentials());
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1000);
    if (async)
        builder.RegisterService(&asynchronous);
    else
        builder.RegisterService(&callback);
    std::unique_ptr<ServerCompletionQueue> queue;
    if (async)
        queue = builder.AddCompletionQueue();
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    std::printf("serving on 127.0.0.1:%s\n", argv[2]);
    std::fflush(stdout);
    if (!async) {
        server->Wait();
        return 0;
    }
    new UnaryCall(&asynchronous, queue.get());
    new RepliesCall(&asynchronous, queue.get());
    new RequestsCall(&asynchronous, queue.get());
    new AnswersCall(&asynchronous, queue.get());
    void *tag;
    bool ok;
    while (queue->Next(&tag, &ok))
        static_cast<Tag *>(tag)->Proceed(ok);
    return 0;
}
