// grpc++ of Debian, the same calls as unary_client.c: `grpcpp-client async|callback ADDRESS CALLS
// AT_ONCE`. One channel; one completion queue and one thread for the asynchronous API.
#include "helloworld.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <sys/resource.h>

using grpc::ClientContext;
using grpc::Status;
using helloworld::Greeter;
using helloworld::HelloReply;
using helloworld::HelloRequest;

namespace {

std::atomic<unsigned long> wrong{0};

void Prepare(ClientContext *context, HelloRequest *request)
{
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    request->set_name("world");
}

void Check(const Status &status, const HelloReply &reply)
{
    if (!status.ok() || reply.message() != "Hello, world")
        wrong++;
}

struct AsyncCall {
    ClientContext context;
    HelloReply reply;
    Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<HelloReply>> reader;
};

void RunAsync(Greeter::Stub *stub, unsigned long calls, unsigned long at_once)
{
    grpc::CompletionQueue queue;
    unsigned long left = calls, going = 0;
    auto start = [&] {
        auto *call = new AsyncCall;
        HelloRequest request;
        Prepare(&call->context, &request);
        call->reader = stub->AsyncSayHello(&call->context, request, &queue);
        call->reader->Finish(&call->reply, &call->status, call);
        left--;
        going++;
    };
    while (going < at_once && left > 0)
        start();
    void *tag;
    bool ok;
    while (going > 0 && queue.Next(&tag, &ok)) {
        auto *call = static_cast<AsyncCall *>(tag);
        Check(call->status, call->reply);
        delete call;
        going--;
        if (left > 0)
            start();
    }
}

class CallbackRun {
public:
    CallbackRun(Greeter::Stub *stub, unsigned long calls) : stub_(stub), left_(calls), going_(calls) {}

    void Run(unsigned long at_once)
    {
        for (unsigned long i = 0; i < at_once; i++)
            Start();
        std::unique_lock<std::mutex> lock(mutex_);
        all_.wait(lock, [&] { return going_ == 0; });
    }

private:
    struct Call {
        ClientContext context;
        HelloRequest request;
        HelloReply reply;
    };

    void Start()
    {
        unsigned long before = left_.load();
        do {
            if (before == 0)
                return;
        } while (!left_.compare_exchange_weak(before, before - 1));
        auto *call = new Call;
        Prepare(&call->context, &call->request);
        stub_->async()->SayHello(&call->context, &call->request, &call->reply,
                                 [this, call](Status status) {
                                     Check(status, call->reply);
                                     delete call;
                                     Start();
                                     if (--going_ == 0) {
                                         std::lock_guard<std::mutex> lock(mutex_);
                                         all_.notify_all();
                                     }
                                 });
    }

    Greeter::Stub *stub_;
    std::atomic<unsigned long> left_, going_;
    std::mutex mutex_;
    std::condition_variable all_;
};

double CpuTime()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    auto stub = Greeter::NewStub(
        grpc::CreateCustomChannel(argv[2], grpc::InsecureChannelCredentials(), arguments));
    bool async = std::string(argv[1]) == "async";
    unsigned long calls = std::strtoul(argv[3], nullptr, 10);
    unsigned long at_once = std::strtoul(argv[4], nullptr, 10);
    auto run = [&](unsigned long count) {
        if (async)
            RunAsync(stub.get(), count, at_once);
        else
            CallbackRun(stub.get(), count).Run(at_once);
    };
    run(calls / 10 + 1);
    double cpu = CpuTime();
    auto start = std::chrono::steady_clock::now();
    run(calls);
    cpu = CpuTime() - cpu;
    double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (wrong > 0) {
        std::fprintf(stderr, "grpcpp-client: %lu calls went wrong\n", wrong.load());
        return 1;
    }
    std::printf("cpu_us=%.4f rate=%.0f\n", cpu * 1e6 / calls, calls / time);
    return 0;
}
