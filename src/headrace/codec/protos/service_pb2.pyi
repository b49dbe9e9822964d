from google.protobuf import any_pb2 as _any_pb2
from headrace.codec.protos import config_pb2 as _config_pb2
from headrace.codec.protos import framework_pb2 as _framework_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorDetail(_message.Message):
    __slots__ = ("node", "op_type", "device", "step", "built_at", "chain", "code", "message", "cause", "forgotten", "gave_up", "restarted")
    NODE_FIELD_NUMBER: _ClassVar[int]
    OP_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    BUILT_AT_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    GAVE_UP_FIELD_NUMBER: _ClassVar[int]
    RESTARTED_FIELD_NUMBER: _ClassVar[int]
    node: str
    op_type: str
    device: str
    step: int
    built_at: str
    chain: _containers.RepeatedScalarFieldContainer[str]
    code: int
    message: str
    cause: ErrorDetail
    forgotten: bool
    gave_up: bool
    restarted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., op_type: _Optional[str] = ..., device: _Optional[str] = ..., step: _Optional[int] = ..., built_at: _Optional[str] = ..., chain: _Optional[_Iterable[str]] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., cause: _Optional[_Union[ErrorDetail, _Mapping]] = ..., forgotten: bool = ..., gave_up: bool = ..., restarted: _Optional[_Iterable[str]] = ...) -> None: ...

class LaneAddress(_message.Message):
    __slots__ = ("version", "server", "host", "unix_path", "tcp_port", "nonce", "call")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    UNIX_PATH_FIELD_NUMBER: _ClassVar[int]
    TCP_PORT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    version: int
    server: int
    host: str
    unix_path: str
    tcp_port: int
    nonce: bytes
    call: int
    def __init__(self, version: _Optional[int] = ..., server: _Optional[int] = ..., host: _Optional[str] = ..., unix_path: _Optional[str] = ..., tcp_port: _Optional[int] = ..., nonce: _Optional[bytes] = ..., call: _Optional[int] = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("graph_def", "config", "target", "headrace_client", "headrace_attends", "headrace_starts")
    class HeadraceStartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GRAPH_DEF_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_CLIENT_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ATTENDS_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_STARTS_FIELD_NUMBER: _ClassVar[int]
    graph_def: _framework_pb2.GraphDef
    config: _config_pb2.ConfigProto
    target: str
    headrace_client: str
    headrace_attends: bool
    headrace_starts: _containers.ScalarMap[str, int]
    def __init__(self, graph_def: _Optional[_Union[_framework_pb2.GraphDef, _Mapping]] = ..., config: _Optional[_Union[_config_pb2.ConfigProto, _Mapping]] = ..., target: _Optional[str] = ..., headrace_client: _Optional[str] = ..., headrace_attends: bool = ..., headrace_starts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session_handle", "graph_version", "headrace_lane")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_LANE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    graph_version: int
    headrace_lane: LaneAddress
    def __init__(self, session_handle: _Optional[str] = ..., graph_version: _Optional[int] = ..., headrace_lane: _Optional[_Union[LaneAddress, _Mapping]] = ...) -> None: ...

class ExtendSessionRequest(_message.Message):
    __slots__ = ("session_handle", "graph_def", "current_graph_version")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DEF_FIELD_NUMBER: _ClassVar[int]
    CURRENT_GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    graph_def: _framework_pb2.GraphDef
    current_graph_version: int
    def __init__(self, session_handle: _Optional[str] = ..., graph_def: _Optional[_Union[_framework_pb2.GraphDef, _Mapping]] = ..., current_graph_version: _Optional[int] = ...) -> None: ...

class ExtendSessionResponse(_message.Message):
    __slots__ = ("new_graph_version",)
    NEW_GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    new_graph_version: int
    def __init__(self, new_graph_version: _Optional[int] = ...) -> None: ...

class RunStepRequest(_message.Message):
    __slots__ = ("session_handle", "feed", "fetch", "target", "options", "partial_run_handle", "store_errors_in_response_body", "request_id")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_RUN_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STORE_ERRORS_IN_RESPONSE_BODY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    feed: _containers.RepeatedCompositeFieldContainer[_framework_pb2.NamedTensorProto]
    fetch: _containers.RepeatedScalarFieldContainer[str]
    target: _containers.RepeatedScalarFieldContainer[str]
    options: _config_pb2.RunOptions
    partial_run_handle: str
    store_errors_in_response_body: bool
    request_id: int
    def __init__(self, session_handle: _Optional[str] = ..., feed: _Optional[_Iterable[_Union[_framework_pb2.NamedTensorProto, _Mapping]]] = ..., fetch: _Optional[_Iterable[str]] = ..., target: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[_config_pb2.RunOptions, _Mapping]] = ..., partial_run_handle: _Optional[str] = ..., store_errors_in_response_body: bool = ..., request_id: _Optional[int] = ...) -> None: ...

class RunStepResponse(_message.Message):
    __slots__ = ("tensor", "metadata", "status_code", "status_error_message", "headrace_error", "headrace_signature", "headrace_direct", "headrace_starts")
    class HeadraceStartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    STATUS_ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ERROR_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_DIRECT_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_STARTS_FIELD_NUMBER: _ClassVar[int]
    tensor: _containers.RepeatedCompositeFieldContainer[_framework_pb2.NamedTensorProto]
    metadata: _config_pb2.RunMetadata
    status_code: _framework_pb2.Code
    status_error_message: str
    headrace_error: ErrorDetail
    headrace_signature: int
    headrace_direct: DirectStep
    headrace_starts: _containers.ScalarMap[str, int]
    def __init__(self, tensor: _Optional[_Iterable[_Union[_framework_pb2.NamedTensorProto, _Mapping]]] = ..., metadata: _Optional[_Union[_config_pb2.RunMetadata, _Mapping]] = ..., status_code: _Optional[_Union[_framework_pb2.Code, str]] = ..., status_error_message: _Optional[str] = ..., headrace_error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., headrace_signature: _Optional[int] = ..., headrace_direct: _Optional[_Union[DirectStep, _Mapping]] = ..., headrace_starts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class DirectStep(_message.Message):
    __slots__ = ("part", "fetch", "timeout_ms")
    PART_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    part: _containers.RepeatedCompositeFieldContainer[DirectPart]
    fetch: _containers.RepeatedScalarFieldContainer[int]
    timeout_ms: int
    def __init__(self, part: _Optional[_Iterable[_Union[DirectPart, _Mapping]]] = ..., fetch: _Optional[_Iterable[int]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class DirectPart(_message.Message):
    __slots__ = ("task", "address", "start", "graph_handle", "feed", "gives")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    GRAPH_HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    GIVES_FIELD_NUMBER: _ClassVar[int]
    task: str
    address: str
    start: int
    graph_handle: str
    feed: _containers.RepeatedScalarFieldContainer[int]
    gives: int
    def __init__(self, task: _Optional[str] = ..., address: _Optional[str] = ..., start: _Optional[int] = ..., graph_handle: _Optional[str] = ..., feed: _Optional[_Iterable[int]] = ..., gives: _Optional[int] = ...) -> None: ...

class PartialRunSetupRequest(_message.Message):
    __slots__ = ("session_handle", "feed", "fetch", "target", "request_id")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    feed: _containers.RepeatedScalarFieldContainer[str]
    fetch: _containers.RepeatedScalarFieldContainer[str]
    target: _containers.RepeatedScalarFieldContainer[str]
    request_id: int
    def __init__(self, session_handle: _Optional[str] = ..., feed: _Optional[_Iterable[str]] = ..., fetch: _Optional[_Iterable[str]] = ..., target: _Optional[_Iterable[str]] = ..., request_id: _Optional[int] = ...) -> None: ...

class PartialRunSetupResponse(_message.Message):
    __slots__ = ("partial_run_handle",)
    PARTIAL_RUN_HANDLE_FIELD_NUMBER: _ClassVar[int]
    partial_run_handle: str
    def __init__(self, partial_run_handle: _Optional[str] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_handle",)
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    def __init__(self, session_handle: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckTasksRequest(_message.Message):
    __slots__ = ("session_handle", "starts")
    class StartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    starts: _containers.ScalarMap[str, int]
    def __init__(self, session_handle: _Optional[str] = ..., starts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CheckTasksResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttendSessionRequest(_message.Message):
    __slots__ = ("session_handle", "only_asks")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ONLY_ASKS_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    only_asks: bool
    def __init__(self, session_handle: _Optional[str] = ..., only_asks: bool = ...) -> None: ...

class AttendSessionResponse(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: ErrorDetail
    def __init__(self, reason: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("container", "device_filters")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FILTERS_FIELD_NUMBER: _ClassVar[int]
    container: _containers.RepeatedScalarFieldContainer[str]
    device_filters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, container: _Optional[_Iterable[str]] = ..., device_filters: _Optional[_Iterable[str]] = ...) -> None: ...

class ResetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDevicesRequest(_message.Message):
    __slots__ = ("session_handle",)
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    def __init__(self, session_handle: _Optional[str] = ...) -> None: ...

class ListDevicesResponse(_message.Message):
    __slots__ = ("local_device", "remote_device")
    LOCAL_DEVICE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_DEVICE_FIELD_NUMBER: _ClassVar[int]
    local_device: _containers.RepeatedCompositeFieldContainer[_framework_pb2.DeviceAttributes]
    remote_device: _containers.RepeatedCompositeFieldContainer[_framework_pb2.DeviceAttributes]
    def __init__(self, local_device: _Optional[_Iterable[_Union[_framework_pb2.DeviceAttributes, _Mapping]]] = ..., remote_device: _Optional[_Iterable[_Union[_framework_pb2.DeviceAttributes, _Mapping]]] = ...) -> None: ...

class MakeCallableRequest(_message.Message):
    __slots__ = ("session_handle", "options", "request_id")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    options: _config_pb2.CallableOptions
    request_id: int
    def __init__(self, session_handle: _Optional[str] = ..., options: _Optional[_Union[_config_pb2.CallableOptions, _Mapping]] = ..., request_id: _Optional[int] = ...) -> None: ...

class MakeCallableResponse(_message.Message):
    __slots__ = ("handle",)
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    handle: int
    def __init__(self, handle: _Optional[int] = ...) -> None: ...

class RunCallableRequest(_message.Message):
    __slots__ = ("session_handle", "handle", "feed", "request_id")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    handle: int
    feed: _containers.RepeatedCompositeFieldContainer[_framework_pb2.TensorProto]
    request_id: int
    def __init__(self, session_handle: _Optional[str] = ..., handle: _Optional[int] = ..., feed: _Optional[_Iterable[_Union[_framework_pb2.TensorProto, _Mapping]]] = ..., request_id: _Optional[int] = ...) -> None: ...

class RunCallableResponse(_message.Message):
    __slots__ = ("fetch", "metadata", "headrace_starts")
    class HeadraceStartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    FETCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_STARTS_FIELD_NUMBER: _ClassVar[int]
    fetch: _containers.RepeatedCompositeFieldContainer[_framework_pb2.TensorProto]
    metadata: _config_pb2.RunMetadata
    headrace_starts: _containers.ScalarMap[str, int]
    def __init__(self, fetch: _Optional[_Iterable[_Union[_framework_pb2.TensorProto, _Mapping]]] = ..., metadata: _Optional[_Union[_config_pb2.RunMetadata, _Mapping]] = ..., headrace_starts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReleaseCallableRequest(_message.Message):
    __slots__ = ("session_handle", "handle")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    handle: int
    def __init__(self, session_handle: _Optional[str] = ..., handle: _Optional[int] = ...) -> None: ...

class ReleaseCallableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ("headrace_cluster",)
    HEADRACE_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    headrace_cluster: bytes
    def __init__(self, headrace_cluster: _Optional[bytes] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("device_attributes", "headrace_clock_ns", "headrace_lane", "headrace_pushes", "headrace_addresses", "headrace_stopping")
    class HeadraceAddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DEVICE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_LANE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_PUSHES_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_STOPPING_FIELD_NUMBER: _ClassVar[int]
    device_attributes: _containers.RepeatedCompositeFieldContainer[_framework_pb2.DeviceAttributes]
    headrace_clock_ns: int
    headrace_lane: LaneAddress
    headrace_pushes: bool
    headrace_addresses: _containers.ScalarMap[str, str]
    headrace_stopping: str
    def __init__(self, device_attributes: _Optional[_Iterable[_Union[_framework_pb2.DeviceAttributes, _Mapping]]] = ..., headrace_clock_ns: _Optional[int] = ..., headrace_lane: _Optional[_Union[LaneAddress, _Mapping]] = ..., headrace_pushes: bool = ..., headrace_addresses: _Optional[_Mapping[str, str]] = ..., headrace_stopping: _Optional[str] = ...) -> None: ...

class CreateWorkerSessionRequest(_message.Message):
    __slots__ = ("session_handle", "server_def", "isolate_session_state", "cluster_device_attributes", "master_task", "master_incarnation")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    SERVER_DEF_FIELD_NUMBER: _ClassVar[int]
    ISOLATE_SESSION_STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_DEVICE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MASTER_TASK_FIELD_NUMBER: _ClassVar[int]
    MASTER_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    server_def: _config_pb2.ServerDef
    isolate_session_state: bool
    cluster_device_attributes: _containers.RepeatedCompositeFieldContainer[_framework_pb2.DeviceAttributes]
    master_task: str
    master_incarnation: int
    def __init__(self, session_handle: _Optional[str] = ..., server_def: _Optional[_Union[_config_pb2.ServerDef, _Mapping]] = ..., isolate_session_state: bool = ..., cluster_device_attributes: _Optional[_Iterable[_Union[_framework_pb2.DeviceAttributes, _Mapping]]] = ..., master_task: _Optional[str] = ..., master_incarnation: _Optional[int] = ...) -> None: ...

class CreateWorkerSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteWorkerSessionRequest(_message.Message):
    __slots__ = ("session_handle", "headrace_reason")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_REASON_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    headrace_reason: ErrorDetail
    def __init__(self, session_handle: _Optional[str] = ..., headrace_reason: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class DeleteWorkerSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndDirectRequest(_message.Message):
    __slots__ = ("session_handle", "reason")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    reason: ErrorDetail
    def __init__(self, session_handle: _Optional[str] = ..., reason: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class EndDirectResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GiveUpRequest(_message.Message):
    __slots__ = ("call", "step", "session")
    CALL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    call: _containers.RepeatedScalarFieldContainer[int]
    step: _containers.RepeatedScalarFieldContainer[int]
    session: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, call: _Optional[_Iterable[int]] = ..., step: _Optional[_Iterable[int]] = ..., session: _Optional[_Iterable[str]] = ...) -> None: ...

class GiveUpResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GiveUpElsewhereRequest(_message.Message):
    __slots__ = ("session_handle", "task", "call")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    task: str
    call: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session_handle: _Optional[str] = ..., task: _Optional[str] = ..., call: _Optional[_Iterable[int]] = ...) -> None: ...

class GiveUpElsewhereResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RegisterGraphRequest(_message.Message):
    __slots__ = ("session_handle", "graph_def", "has_control_flow", "graph_options", "debug_options", "create_worker_session_called", "collective_graph_key", "config_proto", "headrace_all_alive", "headrace_pushes_to", "headrace_pushed_by", "headrace_feed_keys", "headrace_fetch_keys", "headrace_reported", "headrace_linked_to", "headrace_starts", "headrace_master", "headrace_common")
    class HeadraceStartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DEF_FIELD_NUMBER: _ClassVar[int]
    HAS_CONTROL_FLOW_FIELD_NUMBER: _ClassVar[int]
    GRAPH_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEBUG_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CREATE_WORKER_SESSION_CALLED_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PROTO_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ALL_ALIVE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_PUSHES_TO_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_PUSHED_BY_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_FEED_KEYS_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_FETCH_KEYS_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_REPORTED_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_LINKED_TO_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_STARTS_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_MASTER_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_COMMON_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    graph_def: _framework_pb2.GraphDef
    has_control_flow: bool
    graph_options: _config_pb2.GraphOptions
    debug_options: _config_pb2.DebugOptions
    create_worker_session_called: bool
    collective_graph_key: int
    config_proto: _config_pb2.ConfigProto
    headrace_all_alive: bool
    headrace_pushes_to: _containers.RepeatedScalarFieldContainer[str]
    headrace_pushed_by: _containers.RepeatedScalarFieldContainer[str]
    headrace_feed_keys: _containers.RepeatedScalarFieldContainer[str]
    headrace_fetch_keys: _containers.RepeatedScalarFieldContainer[str]
    headrace_reported: bool
    headrace_linked_to: str
    headrace_starts: _containers.ScalarMap[str, int]
    headrace_master: str
    headrace_common: bytes
    def __init__(self, session_handle: _Optional[str] = ..., graph_def: _Optional[_Union[_framework_pb2.GraphDef, _Mapping]] = ..., has_control_flow: bool = ..., graph_options: _Optional[_Union[_config_pb2.GraphOptions, _Mapping]] = ..., debug_options: _Optional[_Union[_config_pb2.DebugOptions, _Mapping]] = ..., create_worker_session_called: bool = ..., collective_graph_key: _Optional[int] = ..., config_proto: _Optional[_Union[_config_pb2.ConfigProto, _Mapping]] = ..., headrace_all_alive: bool = ..., headrace_pushes_to: _Optional[_Iterable[str]] = ..., headrace_pushed_by: _Optional[_Iterable[str]] = ..., headrace_feed_keys: _Optional[_Iterable[str]] = ..., headrace_fetch_keys: _Optional[_Iterable[str]] = ..., headrace_reported: bool = ..., headrace_linked_to: _Optional[str] = ..., headrace_starts: _Optional[_Mapping[str, int]] = ..., headrace_master: _Optional[str] = ..., headrace_common: _Optional[bytes] = ...) -> None: ...

class RegisterGraphResponse(_message.Message):
    __slots__ = ("graph_handle",)
    GRAPH_HANDLE_FIELD_NUMBER: _ClassVar[int]
    graph_handle: str
    def __init__(self, graph_handle: _Optional[str] = ...) -> None: ...

class DeregisterGraphRequest(_message.Message):
    __slots__ = ("graph_handle", "session_handle", "create_worker_session_called")
    GRAPH_HANDLE_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    CREATE_WORKER_SESSION_CALLED_FIELD_NUMBER: _ClassVar[int]
    graph_handle: str
    session_handle: str
    create_worker_session_called: bool
    def __init__(self, graph_handle: _Optional[str] = ..., session_handle: _Optional[str] = ..., create_worker_session_called: bool = ...) -> None: ...

class DeregisterGraphResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunGraphRequest(_message.Message):
    __slots__ = ("graph_handle", "step_id", "send", "recv_key", "exec_opts", "is_partial", "is_last_partial_run", "session_handle", "store_errors_in_response_body", "create_worker_session_called", "request_id", "headrace_ends_step", "headrace_close_reason")
    GRAPH_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    RECV_KEY_FIELD_NUMBER: _ClassVar[int]
    EXEC_OPTS_FIELD_NUMBER: _ClassVar[int]
    IS_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_PARTIAL_RUN_FIELD_NUMBER: _ClassVar[int]
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STORE_ERRORS_IN_RESPONSE_BODY_FIELD_NUMBER: _ClassVar[int]
    CREATE_WORKER_SESSION_CALLED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ENDS_STEP_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    graph_handle: str
    step_id: int
    send: _containers.RepeatedCompositeFieldContainer[_framework_pb2.NamedTensorProto]
    recv_key: _containers.RepeatedScalarFieldContainer[str]
    exec_opts: ExecutorOpts
    is_partial: bool
    is_last_partial_run: bool
    session_handle: str
    store_errors_in_response_body: bool
    create_worker_session_called: bool
    request_id: int
    headrace_ends_step: bool
    headrace_close_reason: bytes
    def __init__(self, graph_handle: _Optional[str] = ..., step_id: _Optional[int] = ..., send: _Optional[_Iterable[_Union[_framework_pb2.NamedTensorProto, _Mapping]]] = ..., recv_key: _Optional[_Iterable[str]] = ..., exec_opts: _Optional[_Union[ExecutorOpts, _Mapping]] = ..., is_partial: bool = ..., is_last_partial_run: bool = ..., session_handle: _Optional[str] = ..., store_errors_in_response_body: bool = ..., create_worker_session_called: bool = ..., request_id: _Optional[int] = ..., headrace_ends_step: bool = ..., headrace_close_reason: _Optional[bytes] = ...) -> None: ...

class RunGraphResponse(_message.Message):
    __slots__ = ("recv", "step_stats", "cost_graph", "partition_graph", "status_code", "status_error_message", "headrace_error")
    RECV_FIELD_NUMBER: _ClassVar[int]
    STEP_STATS_FIELD_NUMBER: _ClassVar[int]
    COST_GRAPH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_GRAPH_FIELD_NUMBER: _ClassVar[int]
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    STATUS_ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HEADRACE_ERROR_FIELD_NUMBER: _ClassVar[int]
    recv: _containers.RepeatedCompositeFieldContainer[_framework_pb2.NamedTensorProto]
    step_stats: _framework_pb2.StepStats
    cost_graph: _framework_pb2.CostGraphDef
    partition_graph: _containers.RepeatedCompositeFieldContainer[_framework_pb2.GraphDef]
    status_code: _framework_pb2.Code
    status_error_message: str
    headrace_error: ErrorDetail
    def __init__(self, recv: _Optional[_Iterable[_Union[_framework_pb2.NamedTensorProto, _Mapping]]] = ..., step_stats: _Optional[_Union[_framework_pb2.StepStats, _Mapping]] = ..., cost_graph: _Optional[_Union[_framework_pb2.CostGraphDef, _Mapping]] = ..., partition_graph: _Optional[_Iterable[_Union[_framework_pb2.GraphDef, _Mapping]]] = ..., status_code: _Optional[_Union[_framework_pb2.Code, str]] = ..., status_error_message: _Optional[str] = ..., headrace_error: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class ExecutorOpts(_message.Message):
    __slots__ = ("record_costs", "record_timeline", "record_partition_graphs", "report_tensor_allocations_upon_oom")
    RECORD_COSTS_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIMELINE_FIELD_NUMBER: _ClassVar[int]
    RECORD_PARTITION_GRAPHS_FIELD_NUMBER: _ClassVar[int]
    REPORT_TENSOR_ALLOCATIONS_UPON_OOM_FIELD_NUMBER: _ClassVar[int]
    record_costs: bool
    record_timeline: bool
    record_partition_graphs: bool
    report_tensor_allocations_upon_oom: bool
    def __init__(self, record_costs: bool = ..., record_timeline: bool = ..., record_partition_graphs: bool = ..., report_tensor_allocations_upon_oom: bool = ...) -> None: ...

class CleanupGraphRequest(_message.Message):
    __slots__ = ("step_id",)
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    def __init__(self, step_id: _Optional[int] = ...) -> None: ...

class CleanupGraphResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CleanupAllRequest(_message.Message):
    __slots__ = ("container",)
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    container: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, container: _Optional[_Iterable[str]] = ...) -> None: ...

class CleanupAllResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecvTensorRequest(_message.Message):
    __slots__ = ("step_id", "rendezvous_key", "dma_ok", "client_locality", "server_locality", "transport_options", "request_id")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_KEY_FIELD_NUMBER: _ClassVar[int]
    DMA_OK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_LOCALITY_FIELD_NUMBER: _ClassVar[int]
    SERVER_LOCALITY_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    rendezvous_key: str
    dma_ok: bool
    client_locality: _framework_pb2.DeviceLocality
    server_locality: _framework_pb2.DeviceLocality
    transport_options: _any_pb2.Any
    request_id: int
    def __init__(self, step_id: _Optional[int] = ..., rendezvous_key: _Optional[str] = ..., dma_ok: bool = ..., client_locality: _Optional[_Union[_framework_pb2.DeviceLocality, _Mapping]] = ..., server_locality: _Optional[_Union[_framework_pb2.DeviceLocality, _Mapping]] = ..., transport_options: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., request_id: _Optional[int] = ...) -> None: ...

class RecvTensorResponse(_message.Message):
    __slots__ = ("tensor", "is_dead", "send_start_micros", "transport_options", "require_ack")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    SEND_START_MICROS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ACK_FIELD_NUMBER: _ClassVar[int]
    tensor: _framework_pb2.TensorProto
    is_dead: bool
    send_start_micros: int
    transport_options: _any_pb2.Any
    require_ack: bool
    def __init__(self, tensor: _Optional[_Union[_framework_pb2.TensorProto, _Mapping]] = ..., is_dead: bool = ..., send_start_micros: _Optional[int] = ..., transport_options: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., require_ack: bool = ...) -> None: ...

class SendTensorRequest(_message.Message):
    __slots__ = ("step_id", "rendezvous_key", "tensor", "is_dead")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RENDEZVOUS_KEY_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    IS_DEAD_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    rendezvous_key: str
    tensor: _framework_pb2.TensorProto
    is_dead: bool
    def __init__(self, step_id: _Optional[int] = ..., rendezvous_key: _Optional[str] = ..., tensor: _Optional[_Union[_framework_pb2.TensorProto, _Mapping]] = ..., is_dead: bool = ...) -> None: ...

class SendTensorResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PushesLostRequest(_message.Message):
    __slots__ = ("source", "step_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    source: str
    step_id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, source: _Optional[str] = ..., step_id: _Optional[_Iterable[int]] = ...) -> None: ...

class PushesLostResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MarkRecvFinishedRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    def __init__(self, request_id: _Optional[int] = ...) -> None: ...

class MarkRecvFinishedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoggingRequest(_message.Message):
    __slots__ = ("enable_rpc_logging", "clear", "fetch_step_id", "disable_rpc_logging")
    ENABLE_RPC_LOGGING_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    FETCH_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    DISABLE_RPC_LOGGING_FIELD_NUMBER: _ClassVar[int]
    enable_rpc_logging: bool
    clear: bool
    fetch_step_id: _containers.RepeatedScalarFieldContainer[int]
    disable_rpc_logging: bool
    def __init__(self, enable_rpc_logging: bool = ..., clear: bool = ..., fetch_step_id: _Optional[_Iterable[int]] = ..., disable_rpc_logging: bool = ...) -> None: ...

class LabeledStepStats(_message.Message):
    __slots__ = ("step_id", "step_stats")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_STATS_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    step_stats: _framework_pb2.StepStats
    def __init__(self, step_id: _Optional[int] = ..., step_stats: _Optional[_Union[_framework_pb2.StepStats, _Mapping]] = ...) -> None: ...

class LoggingResponse(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: _containers.RepeatedCompositeFieldContainer[LabeledStepStats]
    def __init__(self, step: _Optional[_Iterable[_Union[LabeledStepStats, _Mapping]]] = ...) -> None: ...

class TraceOpts(_message.Message):
    __slots__ = ("duration", "use_step_profiler", "use_kernel_profiler", "use_extended_profiler", "use_gpu_profiler", "use_sample_profiler")
    DURATION_FIELD_NUMBER: _ClassVar[int]
    USE_STEP_PROFILER_FIELD_NUMBER: _ClassVar[int]
    USE_KERNEL_PROFILER_FIELD_NUMBER: _ClassVar[int]
    USE_EXTENDED_PROFILER_FIELD_NUMBER: _ClassVar[int]
    USE_GPU_PROFILER_FIELD_NUMBER: _ClassVar[int]
    USE_SAMPLE_PROFILER_FIELD_NUMBER: _ClassVar[int]
    duration: float
    use_step_profiler: bool
    use_kernel_profiler: bool
    use_extended_profiler: bool
    use_gpu_profiler: bool
    use_sample_profiler: bool
    def __init__(self, duration: _Optional[float] = ..., use_step_profiler: bool = ..., use_kernel_profiler: bool = ..., use_extended_profiler: bool = ..., use_gpu_profiler: bool = ..., use_sample_profiler: bool = ...) -> None: ...

class TracingRequest(_message.Message):
    __slots__ = ("options",)
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: TraceOpts
    def __init__(self, options: _Optional[_Union[TraceOpts, _Mapping]] = ...) -> None: ...

class TracingResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InspectRequest(_message.Message):
    __slots__ = ("session_handle", "blocked_only", "awaited_only", "count_for_s")
    SESSION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_ONLY_FIELD_NUMBER: _ClassVar[int]
    AWAITED_ONLY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FOR_S_FIELD_NUMBER: _ClassVar[int]
    session_handle: str
    blocked_only: bool
    awaited_only: bool
    count_for_s: float
    def __init__(self, session_handle: _Optional[str] = ..., blocked_only: bool = ..., awaited_only: bool = ..., count_for_s: _Optional[float] = ...) -> None: ...

class InspectResponse(_message.Message):
    __slots__ = ("task", "awaited")
    TASK_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    task: _containers.RepeatedCompositeFieldContainer[TaskState]
    awaited: _containers.RepeatedCompositeFieldContainer[AwaitedState]
    def __init__(self, task: _Optional[_Iterable[_Union[TaskState, _Mapping]]] = ..., awaited: _Optional[_Iterable[_Union[AwaitedState, _Mapping]]] = ...) -> None: ...

class AwaitedState(_message.Message):
    __slots__ = ("task", "reason", "waited_s")
    TASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    task: str
    reason: str
    waited_s: float
    def __init__(self, task: _Optional[str] = ..., reason: _Optional[str] = ..., waited_s: _Optional[float] = ...) -> None: ...

class TaskState(_message.Message):
    __slots__ = ("task", "address", "silent", "host", "pid", "up_s", "incarnation", "steps", "session", "resource", "blocked", "barrier", "direct_steps", "process", "parts", "mastered", "traffic", "restarts_seen", "silent_code", "checkpoint", "told_in_s", "device")
    class DirectStepsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TASK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UP_S_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    DIRECT_STEPS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    MASTERED_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_SEEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_CODE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    TOLD_IN_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    task: str
    address: str
    silent: str
    host: str
    pid: int
    up_s: float
    incarnation: int
    steps: int
    session: _containers.RepeatedCompositeFieldContainer[SessionState]
    resource: _containers.RepeatedCompositeFieldContainer[ResourceState]
    blocked: _containers.RepeatedCompositeFieldContainer[BlockedStepState]
    barrier: _containers.RepeatedCompositeFieldContainer[ResourceState]
    direct_steps: _containers.ScalarMap[str, int]
    process: ProcessState
    parts: StepCounts
    mastered: StepCounts
    traffic: _containers.RepeatedCompositeFieldContainer[TrafficState]
    restarts_seen: int
    silent_code: int
    checkpoint: _containers.RepeatedCompositeFieldContainer[CheckpointRecord]
    told_in_s: float
    device: _containers.RepeatedCompositeFieldContainer[DeviceState]
    def __init__(self, task: _Optional[str] = ..., address: _Optional[str] = ..., silent: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., up_s: _Optional[float] = ..., incarnation: _Optional[int] = ..., steps: _Optional[int] = ..., session: _Optional[_Iterable[_Union[SessionState, _Mapping]]] = ..., resource: _Optional[_Iterable[_Union[ResourceState, _Mapping]]] = ..., blocked: _Optional[_Iterable[_Union[BlockedStepState, _Mapping]]] = ..., barrier: _Optional[_Iterable[_Union[ResourceState, _Mapping]]] = ..., direct_steps: _Optional[_Mapping[str, int]] = ..., process: _Optional[_Union[ProcessState, _Mapping]] = ..., parts: _Optional[_Union[StepCounts, _Mapping]] = ..., mastered: _Optional[_Union[StepCounts, _Mapping]] = ..., traffic: _Optional[_Iterable[_Union[TrafficState, _Mapping]]] = ..., restarts_seen: _Optional[int] = ..., silent_code: _Optional[int] = ..., checkpoint: _Optional[_Iterable[_Union[CheckpointRecord, _Mapping]]] = ..., told_in_s: _Optional[float] = ..., device: _Optional[_Iterable[_Union[DeviceState, _Mapping]]] = ...) -> None: ...

class CheckpointRecord(_message.Message):
    __slots__ = ("number", "kind", "prefix", "tensors", "bytes", "took_s", "ago_s", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TOOK_S_FIELD_NUMBER: _ClassVar[int]
    AGO_S_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: str
    prefix: str
    tensors: int
    bytes: int
    took_s: float
    ago_s: float
    error: str
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[str] = ..., prefix: _Optional[str] = ..., tensors: _Optional[int] = ..., bytes: _Optional[int] = ..., took_s: _Optional[float] = ..., ago_s: _Optional[float] = ..., error: _Optional[str] = ...) -> None: ...

class DeviceState(_message.Message):
    __slots__ = ("name", "held", "variables", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    held: int
    variables: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., held: _Optional[int] = ..., variables: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ProcessState(_message.Message):
    __slots__ = ("memory_bytes", "cpu_s", "threads")
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    memory_bytes: int
    cpu_s: float
    threads: int
    def __init__(self, memory_bytes: _Optional[int] = ..., cpu_s: _Optional[float] = ..., threads: _Optional[int] = ...) -> None: ...

class StepCounts(_message.Message):
    __slots__ = ("bucket", "sum_s", "failed", "counted_s")
    class FailedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    SUM_S_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    COUNTED_S_FIELD_NUMBER: _ClassVar[int]
    bucket: _containers.RepeatedScalarFieldContainer[int]
    sum_s: float
    failed: _containers.ScalarMap[int, int]
    counted_s: float
    def __init__(self, bucket: _Optional[_Iterable[int]] = ..., sum_s: _Optional[float] = ..., failed: _Optional[_Mapping[int, int]] = ..., counted_s: _Optional[float] = ...) -> None: ...

class TrafficState(_message.Message):
    __slots__ = ("task", "sent", "received")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    task: str
    sent: int
    received: int
    def __init__(self, task: _Optional[str] = ..., sent: _Optional[int] = ..., received: _Optional[int] = ...) -> None: ...

class SessionState(_message.Message):
    __slots__ = ("handle", "client", "age_s", "nodes", "steps")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    handle: str
    client: str
    age_s: float
    nodes: int
    steps: int
    def __init__(self, handle: _Optional[str] = ..., client: _Optional[str] = ..., age_s: _Optional[float] = ..., nodes: _Optional[int] = ..., steps: _Optional[int] = ...) -> None: ...

class ResourceState(_message.Message):
    __slots__ = ("kind", "name", "container", "session", "state", "dtype", "shape", "bytes", "initialized", "updates", "device", "component", "size", "set_aside", "capacity", "min_after_dequeue", "closed", "entered", "waiter", "contributor", "taker", "stage")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MIN_AFTER_DEQUEUE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    ENTERED_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTOR_FIELD_NUMBER: _ClassVar[int]
    TAKER_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    container: str
    session: str
    state: str
    dtype: _framework_pb2.DataType
    shape: _framework_pb2.TensorShapeProto
    bytes: int
    initialized: bool
    updates: int
    device: str
    component: _containers.RepeatedScalarFieldContainer[_framework_pb2.DataType]
    size: int
    set_aside: int
    capacity: int
    min_after_dequeue: int
    closed: bool
    entered: int
    waiter: _containers.RepeatedCompositeFieldContainer[WaiterState]
    contributor: _containers.RepeatedCompositeFieldContainer[ContributorState]
    taker: _containers.RepeatedCompositeFieldContainer[ContributorState]
    stage: _containers.RepeatedCompositeFieldContainer[StageState]
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., container: _Optional[str] = ..., session: _Optional[str] = ..., state: _Optional[str] = ..., dtype: _Optional[_Union[_framework_pb2.DataType, str]] = ..., shape: _Optional[_Union[_framework_pb2.TensorShapeProto, _Mapping]] = ..., bytes: _Optional[int] = ..., initialized: bool = ..., updates: _Optional[int] = ..., device: _Optional[str] = ..., component: _Optional[_Iterable[_Union[_framework_pb2.DataType, str]]] = ..., size: _Optional[int] = ..., set_aside: _Optional[int] = ..., capacity: _Optional[int] = ..., min_after_dequeue: _Optional[int] = ..., closed: bool = ..., entered: _Optional[int] = ..., waiter: _Optional[_Iterable[_Union[WaiterState, _Mapping]]] = ..., contributor: _Optional[_Iterable[_Union[ContributorState, _Mapping]]] = ..., taker: _Optional[_Iterable[_Union[ContributorState, _Mapping]]] = ..., stage: _Optional[_Iterable[_Union[StageState, _Mapping]]] = ...) -> None: ...

class StageState(_message.Message):
    __slots__ = ("label", "holds", "elements", "most", "bytes")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    label: str
    holds: bool
    elements: int
    most: int
    bytes: int
    def __init__(self, label: _Optional[str] = ..., holds: bool = ..., elements: _Optional[int] = ..., most: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ContributorState(_message.Message):
    __slots__ = ("session", "task", "there", "ago_s")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    AGO_S_FIELD_NUMBER: _ClassVar[int]
    session: str
    task: str
    there: bool
    ago_s: float
    def __init__(self, session: _Optional[str] = ..., task: _Optional[str] = ..., there: bool = ..., ago_s: _Optional[float] = ...) -> None: ...

class WaiterState(_message.Message):
    __slots__ = ("kind", "wanted", "so_far", "waited_s", "session", "step", "node", "alike")
    KIND_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    SO_FAR_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ALIKE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    wanted: int
    so_far: int
    waited_s: float
    session: str
    step: int
    node: str
    alike: int
    def __init__(self, kind: _Optional[str] = ..., wanted: _Optional[int] = ..., so_far: _Optional[int] = ..., waited_s: _Optional[float] = ..., session: _Optional[str] = ..., step: _Optional[int] = ..., node: _Optional[str] = ..., alike: _Optional[int] = ...) -> None: ...

class BlockedStepState(_message.Message):
    __slots__ = ("session", "step", "task", "device", "node", "op", "built_at", "waited_s", "kind", "on", "detail", "wanted", "so_far", "resource", "unmoved_s", "lookalike", "source")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    BUILT_AT_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    SO_FAR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    UNMOVED_S_FIELD_NUMBER: _ClassVar[int]
    LOOKALIKE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    session: str
    step: int
    task: str
    device: str
    node: str
    op: str
    built_at: str
    waited_s: float
    kind: str
    on: str
    detail: str
    wanted: int
    so_far: int
    resource: ResourceState
    unmoved_s: float
    lookalike: _containers.RepeatedScalarFieldContainer[str]
    source: str
    def __init__(self, session: _Optional[str] = ..., step: _Optional[int] = ..., task: _Optional[str] = ..., device: _Optional[str] = ..., node: _Optional[str] = ..., op: _Optional[str] = ..., built_at: _Optional[str] = ..., waited_s: _Optional[float] = ..., kind: _Optional[str] = ..., on: _Optional[str] = ..., detail: _Optional[str] = ..., wanted: _Optional[int] = ..., so_far: _Optional[int] = ..., resource: _Optional[_Union[ResourceState, _Mapping]] = ..., unmoved_s: _Optional[float] = ..., lookalike: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ...) -> None: ...
